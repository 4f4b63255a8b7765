"""The files that run roles of a node: systemd units, manifests of Kubernetes, the image.

Each command is one that the command line accepts, each variable one that a node has, and each tool
that is installed accepts the files.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from controlplane.node.effective import NODE_SETTINGS
from controlplane.node.environment import SECRET_VARIABLES
from controlplane.node.identity import build_identity
from controlplane.node.roles import NEEDS

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
CONTAINERFILE = DEPLOY / "Containerfile"
PAGE = REPOSITORY / "docs" / "roles.md"
VALIDATE = REPOSITORY / "var" / "deploy-env" / "bin" / "kubernetes-validate"
PAGE_COMMAND = re.compile(r"(?:`|^| )(?:sluice|manage\.py) ([a-z][^`\n#|]*)", re.MULTILINE)
VARIABLE = re.compile(r"\b(?:SLUICE|SPARK)_[A-Z_]+\b")
Parsed = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command of a file, with the settings that it gets there."""

    file: str
    words: tuple[str, ...]
    variables: dict[str, str]

    def parse(self) -> str:
        """Return its name. Raises AssertionError, SystemExit for one that is not accepted."""
        name, *arguments = self.words
        assert name in get_commands(), f"{self.file}: unknown command {name}"
        command = load_command_class(get_commands()[name], name)
        command.create_parser("sluice", name).parse_args(arguments)
        return name


@cache
def objects() -> list[Parsed]:
    return [
        parsed
        for path in MANIFESTS
        for parsed in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def of_kind(kind: str) -> list[Parsed]:
    return [parsed for parsed in objects() if parsed["kind"] == kind]


def pods() -> dict[str, Parsed]:
    return {
        parsed["metadata"]["name"]: parsed["spec"]["template"]["spec"]
        for parsed in (*of_kind("Deployment"), *of_kind("Job"))
    }


def load_settings() -> dict[str, str]:
    (config,), (secret,) = of_kind("ConfigMap"), of_kind("Secret")
    return {**config["data"], **secret["stringData"]}


def commands_of_pods() -> Iterator[RunCommand]:
    for name, pod in pods().items():
        (container,) = pod["containers"]
        own = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        settings = {**load_settings(), **own}
        yield RunCommand(name, tuple(container["args"]), settings)
        for probe in ("startupProbe", "livenessProbe"):
            if "exec" in container.get(probe, {}):
                program, *words = container[probe]["exec"]["command"]
                assert program == "sluice"
                yield RunCommand(name, tuple(words), settings)


def commands_of_units() -> Iterator[RunCommand]:
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("%i", "engine")
        python, script, *words = shlex.split(re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0])
        assert (python, script) == ("/opt/sluice/.venv/bin/python", "/opt/sluice/manage.py")
        variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
        yield RunCommand(path.name, tuple(words), variables)


def commands_of_image() -> Iterator[RunCommand]:
    text = CONTAINERFILE.read_text(encoding="utf-8")
    assert re.findall(r'^ENTRYPOINT \["sluice"\]$', text, re.MULTILINE)
    for words in re.findall(r"^ *CMD \[(.*)\]$", text, re.MULTILINE):
        yield RunCommand("Containerfile", tuple(re.findall(r'"([^"]+)"', words)[-3:]), {})
    build = re.findall(r"/bin/sluice (.*)$", text, re.MULTILINE)
    yield from (RunCommand("Containerfile", tuple(shlex.split(line)), {}) for line in build)


def commands_of_page() -> Iterator[RunCommand]:
    text = PAGE.read_text(encoding="utf-8")
    for words in PAGE_COMMAND.findall(text):
        yield RunCommand("roles.md", tuple(shlex.split(words)), {})


def all_commands() -> list[RunCommand]:
    return [
        *commands_of_pods(),
        *commands_of_units(),
        *(
            RunCommand(
                entry.file, entry.words[1:] if entry.words[0] == "sluice" else entry.words, {}
            )
            for entry in commands_of_image()
        ),
        *commands_of_page(),
    ]


@pytest.mark.parametrize(
    "command", all_commands(), ids=lambda command: f"{command.file}-{command.words[0]}"
)
def test_each_command_is_accepted_by_the_command_line(command: RunCommand) -> None:
    command.parse()


def test_a_command_that_there_is_not_is_noticed() -> None:
    with pytest.raises(AssertionError, match="unknown command wbe"):
        RunCommand("a file", ("wbe",), {}).parse()
    with pytest.raises(Exception, match="invalid choice: 'motor'"):
        RunCommand("a file", ("worker", "motor"), {}).parse()


def test_every_role_has_a_unit_and_a_pod() -> None:
    roles = set(NEEDS) - {"all"}

    assert {command.words[0] for command in commands_of_units()} == {*roles, "migrate"}
    assert {command.words[0] for command in commands_of_pods()} == {*roles, "migrate", "ping"}


@pytest.mark.parametrize(
    "path", [*UNITS, *MANIFESTS, CONTAINERFILE, PAGE], ids=lambda path: str(path.name)
)
def test_each_variable_is_a_setting_of_a_node(path: Path) -> None:
    settings = {setting.name for setting in NODE_SETTINGS} | SECRET_VARIABLES

    assert set(VARIABLE.findall(path.read_text(encoding="utf-8"))) - settings == set()


def test_each_pod_has_what_its_role_needs_and_no_address_is_refused() -> None:
    for command in commands_of_pods():
        if command.words[0] in NEEDS:
            missing = set(NEEDS[command.words[0]]) - set(command.variables)
            assert missing == set(), command
            build_identity(command.variables, node="n")


def test_no_manifest_but_the_example_has_a_secret_and_that_one_no_real_one() -> None:
    (config,), (secret,) = of_kind("ConfigMap"), of_kind("Secret")

    assert set(config["data"]) & SECRET_VARIABLES == set()
    assert all("CHANGE-ME" in value for value in secret["stringData"].values())
    for pod in pods().values():
        own = {entry["name"] for entry in pod["containers"][0].get("env", [])}
        assert own & SECRET_VARIABLES == set()


@pytest.mark.parametrize("name", list(pods()))
def test_each_pod_is_confined(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    # The Service sluice-web would else set SLUICE_WEB_PORT to an address.
    assert not pod["enableServiceLinks"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert container["image"].partition(":")[2] not in ("", "latest")
    if name != "sluice-migrate":
        assert "livenessProbe" in container


def test_a_probe_of_the_web_process_uses_a_name_that_it_allows() -> None:
    allowed = load_settings()["SLUICE_ALLOWED_HOSTS"].split(",")
    (container,) = pods()["sluice-web"]["containers"]

    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        (header,) = container[probe]["httpGet"]["httpHeaders"]
        assert (header["name"], header["value"] in allowed) == ("Host", True)


def test_there_is_one_beat_and_one_engine_and_never_a_second_one_during_an_update() -> None:
    single = {"sluice-beat", "sluice-worker-engine"}
    deployments = {entry["metadata"]["name"]: entry["spec"] for entry in of_kind("Deployment")}

    assert {deployments[name]["replicas"] for name in single} == {1}
    assert {deployments[name]["strategy"]["type"] for name in single} == {"Recreate"}


def test_the_address_that_writers_use_is_that_of_a_service() -> None:
    settings = load_settings()
    services = {
        f"http://{entry['metadata']['name']}:{entry['spec']['ports'][0]['port']}"
        for entry in of_kind("Service")
    }

    assert {settings["SLUICE_MARKER_URL"], settings["SLUICE_REPORT_URL"]} == services


def test_a_stop_has_the_time_that_writers_get() -> None:
    pod = pods()["sluice-worker-engine"]
    words = pod["containers"][0]["args"]
    unit = (DEPLOY / "systemd" / "sluice-worker@.service").read_text(encoding="utf-8")
    drain_s, stop_s = re.findall(r"--drain (\d+)|^TimeoutStopSec=(\d+)", unit, re.MULTILINE)

    assert pod["terminationGracePeriodSeconds"] > int(words[words.index("--drain") + 1]) + 30
    assert int(stop_s[1]) > int(drain_s[0]) + 30


def test_the_image_copies_what_there_is_and_runs_without_root() -> None:
    text = CONTAINERFILE.read_text(encoding="utf-8")
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]

    assert {"controlplane", "templates", "web", "workers", "requirements.lock"} <= set(copied)
    assert [word for word in copied if not (REPOSITORY / word).exists()] == []
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert all(
        re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+( AS build)?", base)
        for base in re.findall(r"^FROM (.*)$", text, re.MULTILINE)
    )


def test_hadolint_finds_nothing_in_the_containerfile() -> None:
    program = Path(sys.executable).with_name("hadolint")

    checked = subprocess.run(
        [program, "--no-color", CONTAINERFILE], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.skipif(not VALIDATE.exists(), reason="`make check-deploy` installs the validator")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.name))
def test_the_schemas_of_kubernetes_accept_each_manifest(path: Path) -> None:
    checked = subprocess.run(
        [VALIDATE, "--strict", path], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_accepts_each_unit(tmp_path: Path) -> None:
    """All at once, because they name each other; a template needs an instance."""
    for path in UNITS:
        text = path.read_text(encoding="utf-8")
        text = text.replace("/opt/sluice/.venv/bin/python", sys.executable)
        copy = tmp_path / path.name.replace("@.", "@engine.")
        copy.write_text(text.replace("/opt/sluice", str(REPOSITORY)), encoding="utf-8")
    copies = sorted(map(str, tmp_path.iterdir()))

    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *copies],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.name))
def test_units_share_the_confinement_of_the_whole_node(path: Path) -> None:
    def confinement(text: str) -> list[str]:
        block = text.partition("NoNewPrivileges")[2].partition("[Install]")[0]
        return [line for line in block.splitlines() if line and not line.startswith("#")]

    whole = (DEPLOY / "sluice.service").read_text(encoding="utf-8")

    assert confinement(path.read_text(encoding="utf-8")) == confinement(whole)
