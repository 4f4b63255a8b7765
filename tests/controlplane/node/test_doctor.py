"""The doctor says each problem in one line that names the thing and what would help."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.db.utils import ConnectionHandler
from packaging.requirements import Requirement

from controlplane.node.doctor import (
    KEY_PACKAGES,
    DatabaseFacts,
    Finding,
    Surroundings,
    check_database,
    check_java,
    check_lock_url,
    check_ports,
    check_python,
    check_redis,
    examine,
    free_bytes,
    judge_executors,
    read_database,
)
from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.settings.connections import database
from workers.processes import find_free_port
from workers.spark.engine_archive import engine_digest
from workers.spark.remote_packages import PythonFacts

GIB = 1024**3


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings(
        environ={
            "PATH": os.environ["PATH"],
            "SLUICE_WEB_PORT": str(find_free_port()),
            "SLUICE_SPARK_PORT": str(find_free_port()),
            "SLUICE_MARKER_PORT": str(find_free_port()),
        },
        places=Places(home=tmp_path / "home"),
        identity=None,
        is_running=False,
        free_bytes=lambda path: 100 * GIB,
        read_database=lambda: DatabaseFacts("SQLite at home/db.sqlite3", ""),
    )


@pytest.fixture
def occupied_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_a_fit_machine_has_nothing_to_say_against_it(around: Surroundings) -> None:
    findings = examine(around)

    assert [finding for finding in findings if not finding.is_fine] == []
    assert all("\n" not in finding.line for finding in findings)


def test_no_java_on_the_path_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    finding = check_java({"PATH": str(tmp_path)})

    assert not finding.is_fine
    assert finding.line == (
        "no java on the PATH; install Java 17 or newer (Debian: openjdk-17-jre-headless) "
        "or set JAVA_HOME"
    )


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.22" 2024-01-16')

    finding = check_java({"PATH": str(tmp_path)})

    assert not finding.is_fine
    assert "is Java 11, too old for Spark" in finding.line


def test_java_8_is_not_taken_for_java_1(tmp_path: Path) -> None:
    fake_java(tmp_path, 'java version "1.8.0_402"')

    assert "is Java 8, too old" in check_java({"PATH": str(tmp_path)}).line


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.2" 2024-01-16')
    environ = {"PATH": str(tmp_path / "empty"), "JAVA_HOME": str(tmp_path / "home")}

    assert check_java(environ) == Finding("java", True, f"Java 21.0.2 ({tmp_path}/home/bin/java)")


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    finding = check_java({"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path)})

    assert not finding.is_fine
    assert f"JAVA_HOME is {tmp_path}, and no java is in its bin" in finding.line


def test_lock_server_that_does_not_answer_is_named_without_its_password() -> None:
    finding = check_lock_url({"SLUICE_LOCK_URL": "redis://:a-password@127.0.0.1:1/0"})

    assert not finding.is_fine
    assert "redis://127.0.0.1:1/0" in finding.line
    assert "a-password" not in finding.line


def test_lock_address_of_nothing_that_we_know_is_refused() -> None:
    finding = check_lock_url({"SLUICE_LOCK_URL": "zookeeper://quorum:2181"})

    assert not finding.is_fine
    assert "postgresql://" in finding.line


def test_lock_database_that_answers_is_fine_and_looking_makes_nothing(tmp_path: Path) -> None:
    finding = check_lock_url({"SLUICE_LOCK_URL": f"sqlite:///{tmp_path}/locks.db"})

    assert finding == Finding("locks", True, f"database at sqlite:///{tmp_path}/locks.db answers")
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_named_with_the_setting_that_changes_it(
    around: Surroundings, occupied_port: int
) -> None:
    environ = {**around.environ, "SLUICE_WEB_PORT": str(occupied_port)}

    lines = problems(replace(around, environ=environ))

    assert lines == [
        (
            f"port {occupied_port} cannot be used (Address already in use); "
            "stop what listens there, or set SLUICE_WEB_PORT"
        )
    ]


@pytest.mark.parametrize(
    ("port", "address", "server"),
    [
        ("SLUICE_SPARK_PORT", "SLUICE_SPARK_REMOTE", "sc://spark.example:15002"),
        ("SLUICE_MARKER_PORT", "SLUICE_MARKER_URL", "http://markers.example:8766"),
    ],
)
def test_the_port_of_a_server_that_runs_elsewhere_is_not_checked(
    around: Surroundings, occupied_port: int, port: str, address: str, server: str
) -> None:
    environ = {**around.environ, port: str(occupied_port)}
    own = check_ports(replace(around, environ=environ))

    elsewhere = check_ports(replace(around, environ={**environ, address: server}))

    assert [finding.is_fine for finding in own].count(False) == 1
    assert [finding for finding in elsewhere if not finding.is_fine] == []
    assert len(elsewhere) == 2


def test_a_port_is_checked_on_the_address_that_its_server_binds(
    around: Surroundings, occupied_port: int
) -> None:
    environ = {**around.environ, "SLUICE_MARKER_PORT": str(occupied_port)}

    findings = check_ports(replace(around, environ={**environ, "SLUICE_MARKER_HOST": "127.0.0.2"}))

    assert [finding for finding in findings if not finding.is_fine] == []


def test_the_ports_of_a_running_node_are_its_own(around: Surroundings, occupied_port: int) -> None:
    environ = {**around.environ, "SLUICE_WEB_PORT": str(occupied_port)}

    assert problems(replace(around, environ=environ, is_running=True)) == []


def test_a_port_that_is_no_port_is_one_line(around: Surroundings) -> None:
    environ = {**around.environ, "SLUICE_SPARK_PORT": "http"}

    assert problems(replace(around, environ=environ)) == [
        "SLUICE_SPARK_PORT must be a port between 1 and 65535, not 'http'"
    ]


def test_a_full_disk_is_named_with_what_is_left(around: Surroundings) -> None:
    [line] = problems(replace(around, free_bytes=lambda path: GIB // 2))

    assert line == f"only 0.5 GiB free where {around.places.home} is; 2 GiB are needed"


def test_free_space_is_known_before_the_home_exists(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not" / "there" / "yet") > 0


def test_a_home_inside_a_file_is_refused(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    [line] = problems(replace(around, places=Places(home=tmp_path / "file" / "home")))

    assert line == f"{tmp_path}/file cannot be written to; set SLUICE_HOME to a folder that can"


def test_a_socket_folder_that_is_too_long_is_refused(around: Surroundings) -> None:
    identity = Identity(
        node="n", web_port=1, spark_port=2, marker_port=3, sockets="/tmp/" + "long" * 30
    )

    [line] = problems(replace(around, identity=identity))

    assert "107 fit; set TMPDIR to a shorter folder" in line


def test_another_version_than_the_pinned_one_is_named(around: Surroundings) -> None:
    pins = [Requirement(f"{name}==0.0.1") for name in KEY_PACKAGES]

    [line] = problems(replace(around, requirements=pins))

    assert re.search(r"pyspark is 4\.[0-9.]+ instead of 0\.0\.1;", line)
    assert line.endswith("run `make setup`")


def test_a_version_outside_the_range_of_the_wheel_is_named(around: Surroundings) -> None:
    ranges = [Requirement(f"{name}>=0.0.1") for name in KEY_PACKAGES if name != "pyspark"]
    newer = Requirement("pyspark[connect]>=9,<10; extra == 'spark'")

    assert problems(replace(around, requirements=[*ranges, Requirement("pyspark>=4,<5")])) == []
    [line] = problems(replace(around, requirements=[*ranges, newer]))

    assert re.search(r"^pyspark is 4\.[0-9.]+ instead of <10,>=9;", line)


def test_a_spark_server_that_nobody_runs_is_named(around: Surroundings) -> None:
    remote = f"sc://127.0.0.1:{find_free_port()}"
    environ = {**os.environ, **around.environ, "SLUICE_SPARK_REMOTE": remote}

    [line] = problems(replace(around, environ=environ))

    assert line.startswith(f"{remote} cannot be used: spark connect server does not answer")


def test_a_spark_server_without_our_packages_is_named() -> None:
    packages = {"pyarrow": "", "numpy": "2.4.6", "pandas": "2.3.3", "fastavro": "1.13.1"}
    facts = PythonFacts("far:app/0", "3.9", engine_digest(), packages)

    finding = judge_executors("sc://far:15002", [facts])

    assert finding == Finding(
        "spark",
        False,
        "sc://far:15002 cannot run our tasks: Python is 3.9 and not 3.11 at far:app/0; "
        "pyarrow is missing at far:app/0",
    )


def test_an_old_python_is_refused() -> None:
    assert check_python((3, 10)) == Finding(
        "python", False, "Python 3.10 is too old; 3.11 is needed"
    )


def problems(around: Surroundings) -> list[str]:
    return [finding.line for finding in examine(around) if not finding.is_fine]


def fake_java(folder: Path, says: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)


def test_redis_server_of_the_settings_is_asked_and_its_password_is_not_shown(
    around: Surroundings, redis_url: str
) -> None:
    named = check_redis(None, {"SLUICE_REDIS_URL": redis_url}, is_running=False)
    away = check_redis(None, {"SLUICE_REDIS_URL": "redis://:hush@127.0.0.1:1/0"}, is_running=False)

    assert named.is_fine
    port = redis_url.rpartition(":")[2]
    assert re.search(rf"127\.0\.0\.1:{port} answers, Redis \d+\.\d+", named.line)
    assert "hush" not in named.line
    assert not away.is_fine
    assert "127.0.0.1:1" in away.line
    assert "hush" not in away.line


def test_own_redis_server_must_answer_only_while_the_node_runs(tmp_path: Path) -> None:
    node = Identity("of-a-test", 1, 2, 3, str(tmp_path))
    environ = {"SLUICE_REDIS_URL": node.own_redis_url}

    assert check_redis(node, environ, is_running=False).is_fine
    assert not check_redis(node, environ, is_running=True).is_fine


def test_database_line_has_the_address_the_version_and_pending_migrations() -> None:
    facts = DatabaseFacts("PostgreSQL at db.internal:5432/sluice", "version 17.2")
    behind = replace(facts, missing_migrations=2)

    current = check_database(lambda: facts, is_running=True)
    upgrade = check_database(lambda: behind, is_running=False)
    running = check_database(lambda: behind, is_running=True)

    assert current == Finding(
        "database",
        True,
        "PostgreSQL at db.internal:5432/sluice, version 17.2, no pending migrations",
    )
    assert upgrade.is_fine
    assert "2 pending migrations" in upgrade.line
    assert not running.is_fine


def test_database_that_does_not_answer_is_one_line() -> None:
    def fail() -> DatabaseFacts:
        raise OperationalError("connection refused\nIs the server running?")

    finding = check_database(fail, is_running=False)

    assert finding == Finding(
        "database", False, "SLUICE_DATABASE cannot be used: connection refused"
    )


@pytest.mark.django_db
def test_database_of_the_settings_is_read_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "db").touch()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "db"))

    facts = read_database()

    assert re.match(r"(SQLite|PostgreSQL) at .*/db$", facts.address)
    assert re.match(r"version \d+\.\d+", facts.version)
    assert facts.missing_migrations == 0


def test_missing_database_is_not_created_by_the_check(tmp_path: Path) -> None:
    missing = tmp_path / "db.sqlite3"
    databases = ConnectionHandler({"default": database(str(missing))})

    assert read_database(databases["default"]) == DatabaseFacts(f"SQLite at {missing}", "")
    assert not missing.exists()
