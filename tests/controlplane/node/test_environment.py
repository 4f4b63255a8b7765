"""What each process of a node gets, and above all what it does not get."""

from __future__ import annotations

import json
import re
import stat
from configparser import ConfigParser
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from controlplane.node.environment import adopt, process_environment
from controlplane.node.identity import BadSetting, Identity, build_identity, read_identity
from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import Process, processes
from controlplane.node.secrets_file import NodeSecrets, ensure_secrets, read_secrets
from controlplane.node.supervision import settings_text
from tests.support.power_loss import Disk, KeepsNames, LosesAll
from tests.support.recorded_disk import RecordedDisk

SECRETS = NodeSecrets(
    django_secret_key="django-secret",
    worker_token="worker-secret",
    marker_secret="marker-secret",
    metrics_token="metrics-secret",
    spark_token="spark-secret",
    admin_password="admin-secret",
    viewer_password="viewer-secret",
)
IDENTITY = Identity(
    node="n1", web_port=8000, spark_port=15002, marker_port=8766, sockets="/tmp/sluice-x"
)
SHELL = {
    "PATH": "/usr/bin",
    "HOME": "/home/ada",
    "SPARK_HOME": "/opt/another-spark",
    "PYTHONPATH": "/opt/another-project",
    "SECRET_OF_MY_SHELL": "shell-secret",
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "a home with spaces and 100%")


def test_no_argument_and_no_settings_file_holds_a_secret(places: Places) -> None:
    wanted = table(places)

    written = settings_text(places, IDENTITY, wanted.values()) + json.dumps(
        [process.command for process in wanted.values()]
    )

    assert [secret for secret in asdict(SECRETS).values() if secret in written] == []


@pytest.mark.parametrize(
    ("name", "secrets"),
    [
        ("redis", set()),
        ("spark", {"spark-secret"}),
        ("web", {"django-secret", "worker-secret", "marker-secret", "metrics-secret"}),
        ("worker", {"django-secret", "worker-secret", "marker-secret", "spark-secret"}),
        ("control", {"django-secret", "worker-secret", "marker-secret", "spark-secret"}),
        ("mirror", {"django-secret", "worker-secret", "marker-secret", "spark-secret"}),
        ("messages", {"django-secret", "worker-secret", "marker-secret", "spark-secret"}),
        ("beat", {"django-secret", "worker-secret", "marker-secret", "spark-secret"}),
    ],
)
def test_a_process_gets_the_secrets_that_it_needs_and_no_others(
    places: Places, name: str, secrets: set[str]
) -> None:
    environ = environment_of(places, name, SHELL)

    assert set(environ.values()) & set(asdict(SECRETS).values()) == secrets


def test_process_that_an_app_added_has_a_launcher_of_its_own_and_waits(places: Places) -> None:
    extra = Process(
        "extra", ("true",), {}, PROJECT, 5, launcher="some.app.launch", starts_with_node=False
    )
    parser = ConfigParser(interpolation=None)
    parser.read_string(settings_text(places, IDENTITY, [*table(places).values(), extra]))

    starts = {name: dict(parser[f"program:{name}"]) for name in [*table(places), "extra"]}
    assert [name for name, one in starts.items() if one["autostart"] == "false"] == ["extra"]
    assert starts["extra"]["command"].endswith("-m some.app.launch extra")
    assert starts["extra"]["autorestart"] == "unexpected"
    assert starts["web"]["command"].endswith("-m controlplane.node.launch web")
    assert starts["web"]["autorestart"] == "true"


def test_a_shells_own_spark_and_secrets_do_not_leak_in(places: Places) -> None:
    environ = environment_of(places, "spark", SHELL)

    assert "SPARK_HOME" not in environ
    assert "another-project" not in environ["PYTHONPATH"]
    assert "shell-secret" not in environ.values()
    assert environ["HOME"] == "/home/ada"


def test_options_of_java_reach_the_program_that_runs_spark(places: Places) -> None:
    given = {**SHELL, "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy"}

    spark = environment_of(places, "spark", given)

    assert spark["JAVA_TOOL_OPTIONS"] == "-Dhttps.proxyHost=proxy"


def test_addresses_with_passwords_do_not_reach_spark(places: Places) -> None:
    given = {
        **SHELL,
        "SLUICE_DATABASE": "postgres://sluice:pw@db/sluice",
        "SLUICE_LOCK_URL": "redis://:pw@cache/0",
        "SLUICE_LOG_LEVEL": "INFO",
    }

    spark, web = environment_of(places, "spark", given), environment_of(places, "web", given)

    assert not {"SLUICE_DATABASE", "SLUICE_LOCK_URL"} & set(spark)
    assert web["SLUICE_LOCK_URL"] == "redis://:pw@cache/0"
    assert web["SLUICE_DATABASE"] == "postgres://sluice:pw@db/sluice"
    assert spark["SLUICE_LOG_LEVEL"] == "INFO"


def test_another_redis_and_another_spark_are_used_and_not_started(places: Places) -> None:
    identity = replace(
        IDENTITY, redis_url="redis://queue:6379/0", spark_remote="sc://cluster:15002"
    )

    wanted = {one.name: one for one in processes(SHELL, places, identity, SECRETS)}
    environ = process_environment(SHELL, places, identity, wanted["worker"].secrets)

    assert set(wanted) == {"web", "worker", "control", "mirror", "messages", "beat"}
    assert environ["SLUICE_REDIS_URL"] == "redis://queue:6379/0"
    assert environ["SLUICE_SPARK_REMOTE"] == "sc://cluster:15002"
    # With a token Spark's client would insist on TLS, and the token is not that server's.
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" not in environ


def test_addresses_that_are_set_reach_the_processes_and_others_are_loopback(places: Places) -> None:
    names = ("SLUICE_WEB_HOST", "SLUICE_MARKER_HOST", "SLUICE_MARKER_URL", "SLUICE_REPORT_URL")
    shell = {
        **SHELL,
        "SLUICE_ALLOWED_HOSTS": "sluice.example",
        "SLUICE_WEB_HOST": "0.0.0.0",
        "SLUICE_MARKER_HOST": "127.0.0.2",
        "SLUICE_MARKER_URL": "http://markers.example:8766",
        "SLUICE_REPORT_URL": "http://sluice-web:8000",
        "SLUICE_PUBLIC_URL": "https://sluice.example",
        "SPARK_LOCAL_IP": "10.0.0.7",
    }

    chosen = worker_environment(places, shell)
    default = worker_environment(places, SHELL)

    assert [chosen[name] for name in (*names, "SLUICE_PUBLIC_URL", "SPARK_LOCAL_IP")] == [
        "0.0.0.0",
        "127.0.0.2",
        "http://markers.example:8766",
        "http://sluice-web:8000",
        "https://sluice.example",
        "10.0.0.7",
    ]
    assert [default[name] for name in (*names, "SLUICE_PUBLIC_URL", "SPARK_LOCAL_IP")] == [
        "127.0.0.1",
        "127.0.0.1",
        "http://127.0.0.1:8766",
        "http://127.0.0.1:8000",
        "http://127.0.0.1:8000",
        "127.0.0.1",
    ]
    assert (chosen["SLUICE_OWN_MARKER_SERVER"], default["SLUICE_OWN_MARKER_SERVER"]) == ("0", "1")


def test_own_servers_on_another_address_are_reached_there(places: Places) -> None:
    shell = {
        **SHELL,
        "SLUICE_ALLOWED_HOSTS": "sluice.example",
        "SLUICE_WEB_HOST": "127.0.0.3",
        "SLUICE_MARKER_HOST": "127.0.0.2",
    }

    environ = worker_environment(places, shell)
    web = processes(shell, places, build_identity(shell, node="n1"), SECRETS)
    command = next(process.command for process in web if process.name == "web")

    assert environ["SLUICE_MARKER_URL"] == "http://127.0.0.2:8766"
    assert environ["SLUICE_REPORT_URL"] == "http://127.0.0.3:8000"
    assert command[command.index("--host") + 1] == "127.0.0.3"


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        (
            {"SLUICE_WEB_HOST": "0.0.0.0"},
            "SLUICE_WEB_HOST=0.0.0.0 serves other machines: set SLUICE_ALLOWED_HOSTS",
        ),
        (
            {"SLUICE_WEB_HOST": "10.0.0.7", "SLUICE_ALLOWED_HOSTS": "a.example,*"},
            "SLUICE_WEB_HOST=10.0.0.7 serves other machines: set SLUICE_ALLOWED_HOSTS",
        ),
        ({"SLUICE_WEB_HOST": "localhost"}, "SLUICE_WEB_HOST must be an IP address"),
        ({"SLUICE_MARKER_HOST": "all"}, "SLUICE_MARKER_HOST must be an IP address"),
        ({"SLUICE_MARKER_URL": "https://a:1"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
        ({"SLUICE_MARKER_URL": "http://a"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
        ({"SLUICE_MARKER_URL": "http://a:x"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
        ({"SLUICE_MARKER_URL": "http://[::1"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
        ({"SLUICE_MARKER_URL": "http://u@a:1"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
        ({"SLUICE_MARKER_URL": "http://a:1/b"}, "SLUICE_MARKER_URL must be http://<host>:<port>"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence(
    variables: dict[str, str], complaint: str
) -> None:
    with pytest.raises(BadSetting, match=f"^{re.escape(complaint)}"):
        build_identity(variables, node="n1")


def test_a_role_gets_what_its_caller_set_and_nothing_of_a_node_in_that_home(
    tmp_path: Path,
) -> None:
    adopt({"SLUICE_HOME": str(tmp_path)}, command="up")
    environ = {"SLUICE_HOME": str(tmp_path), "SLUICE_REDIS_URL": "redis://queue:6379/0"}
    before = dict(environ)

    adopt(environ, command="web")

    assert environ == before
    remove_sockets(tmp_path)


def test_spark_listens_on_loopback_only(places: Places) -> None:
    command = table(places)["spark"].command

    assert "spark.connect.grpc.binding.address=127.0.0.1" in command
    assert "spark.driver.bindAddress=127.0.0.1" in command
    assert "spark.master=local[8,4]" in command


def test_up_makes_secrets_once_and_only_this_user_can_read_them(tmp_path: Path) -> None:
    environ = {"SLUICE_HOME": str(tmp_path / "home")}

    adopt(environ, command="up")
    first = (tmp_path / "home" / "secrets.json").read_text()
    adopt({"SLUICE_HOME": str(tmp_path / "home")}, command="up")

    assert (tmp_path / "home" / "secrets.json").read_text() == first
    assert stat.S_IMODE((tmp_path / "home" / "secrets.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert environ["SLUICE_SECRET_KEY"] in first
    remove_sockets(tmp_path / "home")


def test_a_later_command_finds_the_node_that_up_chose(tmp_path: Path) -> None:
    adopt({"SLUICE_HOME": str(tmp_path), "SLUICE_WEB_PORT": "8123"}, command="up")
    later = {"SLUICE_HOME": str(tmp_path)}

    adopt(later, command="write")

    assert later["SLUICE_PUBLIC_URL"] == "http://127.0.0.1:8123"
    assert later["SLUICE_REDIS_URL"].startswith("unix:///")
    remove_sockets(tmp_path)


@pytest.mark.parametrize("command", ["down", "status", "doctor"])
def test_a_command_that_needs_no_node_leaves_no_trace(tmp_path: Path, command: str) -> None:
    environ = {"SLUICE_HOME": str(tmp_path / "home")}

    adopt(environ, command=command)

    assert environ["SLUICE_SECRET_KEY"]
    assert not (tmp_path / "home").exists()


def test_two_services_on_one_port_are_refused(tmp_path: Path) -> None:
    environ = {"SLUICE_HOME": str(tmp_path), "SLUICE_WEB_PORT": "15002"}

    with pytest.raises(BadSetting, match="ports must be different"):
        adopt(environ, command="up")


def test_a_socket_folder_of_somebody_else_is_not_used_again(tmp_path: Path) -> None:
    environ = {"SLUICE_HOME": str(tmp_path)}
    adopt(environ, command="up")
    identity = read_identity(Places(tmp_path).identity)
    assert identity is not None
    Path(identity.sockets).chmod(0o777)

    adopt(environ, command="up")

    chosen_again = read_identity(Places(tmp_path).identity)
    assert chosen_again is not None
    assert chosen_again.sockets != identity.sockets
    assert chosen_again.node == identity.node
    Path(identity.sockets).rmdir()
    remove_sockets(tmp_path)


def test_secrets_outlive_a_loss_of_power(tmp_path: Path) -> None:
    """Another key would end every session, and no token of a worker would be valid any more."""
    path = tmp_path / "secrets.json"
    path.write_text("{}")
    recording = RecordedDisk(tmp_path)

    with recording.recorded():
        ensure_secrets(path)

    for chance in (LosesAll(), KeepsNames()):
        for at_step in range(recording.began_at, len(recording.steps) + 1):
            disk = Disk()
            disk.take(recording.steps[:at_step])
            left = disk.after_power_loss(chance)["secrets.json"]
            is_over = at_step == len(recording.steps)
            assert left in ([path.read_bytes()] if is_over else [b"{}", path.read_bytes()])


def test_a_secret_that_a_later_version_needs_is_added_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    old = {"worker_token": "kept", "from_a_newer_version": "kept too"}
    path.write_text(json.dumps(old))
    assert read_secrets(path) is None

    secrets = ensure_secrets(path)

    stored = json.loads(path.read_text())
    assert secrets.worker_token == "kept"
    assert stored["from_a_newer_version"] == "kept too"
    assert read_secrets(path) == secrets


def table(places: Places) -> dict[str, Process]:
    return {one.name: one for one in processes(SHELL, places, IDENTITY, SECRETS)}


def worker_environment(places: Places, shell: dict[str, str]) -> dict[str, str]:
    return process_environment(shell, places, build_identity(shell, node="n1"), {})


def environment_of(places: Places, name: str, shell: dict[str, str]) -> dict[str, str]:
    wanted = {one.name: one for one in processes(shell, places, IDENTITY, SECRETS)}
    return process_environment(shell, places, IDENTITY, wanted[name].secrets)


def remove_sockets(home: Path) -> None:
    identity = read_identity(Places(home).identity)
    assert identity is not None
    Path(identity.sockets).rmdir()


def test_migrate_works_in_a_home_that_was_never_used(tmp_path: Path) -> None:
    environ = {"SLUICE_HOME": str(tmp_path / "new" / "home")}

    adopt(environ, command="migrate")

    assert environ["SLUICE_SECRET_KEY"]
    assert (tmp_path / "new" / "home").is_dir()
    assert not list((tmp_path / "new" / "home").iterdir()), "the first `up` makes the secrets"
