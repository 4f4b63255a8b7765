"""`from sluice import ...` in programs of users: its names, and one sentence for each failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from inspect import getmembers, isclass
from pathlib import Path

import pyarrow as pa
import pytest
import sluice
from sluice.packages import ROOT

import workers
from controlplane.node.places import PROJECT, find_home
from workers import errors
from workers.installation import format_command, format_installation
from workers.sink.config import sink_config
from workers.sink.tables import COORDINATES, check_sink_table

COLLIDING = "raise SystemExit('the wrong package was imported')\n"


@pytest.fixture(scope="module")
def wheel_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for PYTHONPATH with our packages in their places of the wheel."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "workers" / "public" / "sluice", site / "sluice")
    for name in ("workers", "controlplane", "web"):
        leave_out = shutil.ignore_patterns("public", "*.pth")
        shutil.copytree(ROOT / name, site / "sluice" / "_packages" / name, ignore=leave_out)
    return site


def run(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in a folder, without variables of Sluice, Django or Python."""
    environ = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTHON", "SLUICE_"))
    }
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_package(folder: Path, name: str) -> Path:
    """Write another project's package of this name."""
    (folder / name).mkdir(parents=True)
    file = folder / name / "__init__.py"
    file.write_text(COLLIDING)
    return file


def test_every_public_name_is_there_and_is_the_engines_own() -> None:
    for name in sluice.__all__:
        assert getattr(sluice, name) is not None

    assert set(workers.__all__) <= set(sluice.__all__)
    assert [
        name for name in workers.__all__ if getattr(workers, name) is not getattr(sluice, name)
    ] == []
    with pytest.raises(AttributeError, match="no attribute 'open_tables'"):
        sluice.open_tables  # noqa: B018


def test_a_user_creates_the_table_of_a_sink_that_appends(tmp_path: Path) -> None:
    """Without Storage and Ports, which are not public."""
    types: dict[str, pa.DataType] = {"id": pa.int64(), "city": pa.string()}
    schema = pa.schema(types)

    created = sluice.create_append_table(
        tmp_path / "orders", name="orders", schema=schema, topic="orders", partitions=8
    )

    table = sluice.open_table(tmp_path / "orders").table
    options = {"hoodie.kafka.topic": "orders", "bootstrap.servers": "localhost:9092"}
    check_sink_table(table, sink_config({**options, "hoodie.sink.mode": "append"}))
    assert isinstance(created, sluice.LakehouseTable)
    assert created.schema().names == [*COORDINATES.names, "id", "city"]
    with pytest.raises(sluice.InvalidInput, match=r"columns=.*_kafka_topic"):
        sluice.create_append_table(
            tmp_path / "other", name="other", schema=COORDINATES, topic="orders", partitions=8
        )
    with pytest.raises(sluice.InvalidInput, match="needs the schema of the payload"):
        sluice.create_append_table(
            tmp_path / "other", name="other", schema=None, topic="orders", partitions=8
        )


def test_users_can_catch_every_error_of_the_engine() -> None:
    raised = {name for name, _ in getmembers(errors, isclass)} - {"StopPointRaised"}

    assert raised <= set(sluice.__all__)


@pytest.mark.process
def test_importing_it_loads_neither_the_engine_nor_spark(tmp_path: Path) -> None:
    code = "import sluice, sys; print({'workers', 'pyarrow', 'pyspark'} & sys.modules.keys())"

    done = run("-c", code, cwd=tmp_path)

    assert done.stdout == "set()\n", done.stderr


@pytest.mark.process
@pytest.mark.parametrize("is_module", [False, True], ids=["folder", "module"])
def test_another_package_called_workers_is_refused_in_one_sentence(
    tmp_path: Path, is_module: bool
) -> None:
    other = tmp_path / "workers.py"
    if is_module:
        other.write_text(COLLIDING)
    else:
        other = write_package(tmp_path, "workers")
    program = tmp_path / "program.py"
    program.write_text("from sluice import open_table\n")

    done = run(program, cwd=tmp_path.parent)

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: `workers` is {other} here, not the package"), done.stderr
    assert "rename that file or folder" in last


@pytest.mark.process
def test_another_workers_that_the_program_imported_before_is_refused(tmp_path: Path) -> None:
    write_package(tmp_path, "workers").write_text("")
    program = tmp_path / "program.py"
    program.write_text("import workers\nfrom sluice import open_table\n")

    done = run(program, cwd=tmp_path)

    assert "not the package `workers` of Sluice" in done.stderr.splitlines()[-1]


@pytest.mark.process
def test_the_command_runs_our_packages_in_a_folder_that_has_others(tmp_path: Path) -> None:
    for name in ("workers", "controlplane", "web"):
        write_package(tmp_path, name)
    home = tmp_path / "home"

    done = run("-m", "sluice", "status", cwd=tmp_path, SLUICE_HOME=str(home))

    assert done.stdout == "Sluice is not running.\n", done.stderr
    assert done.returncode == 1


@pytest.mark.process
def test_the_command_refuses_packages_that_are_not_ours(tmp_path: Path) -> None:
    """As a site that loads one before: in `sys.modules` it comes before any path."""
    write_package(tmp_path, "web").write_text("")
    code = (
        "import sys, web; from sluice.command_line import main; sys.argv = ['sluice', 'up']; main()"
    )

    done = run("-c", code, cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(f"sluice: `web` is {tmp_path}/web/__init__.py here"), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("package", "extra", "statement"),
    [
        ("sqlglot", "sql", "from sluice import run_sql"),
        ("duckdb", "sql", "from sluice import run_sql"),
        ("pyspark", "spark", "from sluice import SluiceDataSource"),
        ("confluent_kafka", "kafka", "from sluice import run_sink"),
        ("obstore", "s3", "import sluice; sluice.open_table('s3://bucket/people')"),
        ("django", "server", "from sluice.command_line import main; main()"),
    ],
)
def test_a_package_that_is_not_installed_is_one_sentence_with_its_extra(
    wheel_site: Path, tmp_path: Path, package: str, extra: str, statement: str
) -> None:
    paths = os.pathsep.join(map(str, (wheel_site, wheel_site / "sluice" / "_packages")))
    code = f"import sys; sys.modules[{package!r}] = None; {statement}"

    done = run("-c", code, cwd=tmp_path, PYTHONPATH=paths)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'sluice[{extra}]'"), done.stderr


def test_commands_are_named_as_the_user_has_them() -> None:
    assert PROJECT == ROOT
    assert format_command("up") == "make up"
    assert format_command("table list") == "manage.py table list"
    assert format_command("up", is_checkout=False) == "sluice up"
    assert format_installation("s3") == "make setup"
    assert format_installation("s3", is_checkout=False) == "pip install 'sluice[s3]'"


def test_the_home_is_the_folder_that_the_user_or_the_system_names(tmp_path: Path) -> None:
    user = {"HOME": str(tmp_path)}

    assert find_home(user) == PROJECT / "var"
    assert find_home(user, is_checkout=False) == tmp_path / ".local" / "state" / "sluice"
    state = {**user, "XDG_STATE_HOME": "/var/lib/state"}
    assert find_home(state, is_checkout=False) == Path("/var/lib/state/sluice")
    relative = {**user, "XDG_STATE_HOME": "state"}
    assert find_home(relative, is_checkout=False) == tmp_path / ".local" / "state" / "sluice"
    for is_checkout in (False, True):
        named = {**state, "SLUICE_HOME": str(tmp_path / "home")}
        assert find_home(named, is_checkout=is_checkout) == tmp_path / "home"
