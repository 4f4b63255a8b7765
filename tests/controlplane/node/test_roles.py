"""A role of a node runs by its settings alone, and reports in one sentence what it lacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.core.management import CommandError, call_command

from controlplane.node.migrating import count_missing_migrations
from controlplane.node.places import PROJECT, Places
from controlplane.node.readiness import BEAT_QUIET_S, beat_works, server_works
from controlplane.node.roles import NEEDS, QUEUES, build_processes, build_worker, read_role
from workers import create_table
from workers.markers.process import probe, sample
from workers.processes import find_free_port, start_on_free_ports

WAIT_S_MAX = 60.0
SETTINGS = {
    "SLUICE_DATABASE": "postgres://sluice@db/sluice",
    "SLUICE_REDIS_URL": "redis://queue:6379/0",
    "SLUICE_SECRET_KEY": "django-secret",
    "SLUICE_WORKER_TOKEN": "worker-secret",
    "SLUICE_MARKER_SECRET": "marker-secret",
    "SLUICE_MARKER_URL": "http://markers:8766",
    "SLUICE_SPARK_REMOTE": "sc://spark:15002",
}
COMMANDS = {
    "web": ["web"],
    "worker": ["worker", "engine"],
    "beat": ["beat"],
    "markers": ["markers"],
    "all": ["all"],
}


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of all roles, also in the environment of this process."""
    own = {
        **SETTINGS,
        "SLUICE_HOME": str(tmp_path / "home"),
        "SLUICE_TABLE_ROOTS": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    return own


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, names in NEEDS.items() for name in names]
)
def test_a_missing_setting_is_one_sentence_that_names_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, role: str, name: str
) -> None:
    monkeypatch.delenv(name)

    with pytest.raises(CommandError, match=f"^{name} is not set, and {role} needs it: ") as refused:
        call_command(*COMMANDS[role])

    assert "\n" not in str(refused.value)
    assert not Path(environ["SLUICE_HOME"]).exists()


def test_secrets_of_the_home_are_used_where_the_environment_has_none(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLUICE_WORKER_TOKEN")
    places = Places(Path(environ.pop("SLUICE_HOME")))
    places.create()
    places.secrets.write_text('{"worker_token": "of the home", "marker_secret": "not used"}')

    _, secrets = read_role("web", environ, places)

    assert (secrets.worker_token, secrets.marker_secret) == ("of the home", "marker-secret")


def test_a_role_has_the_secrets_that_it_needs_and_no_others(
    environ: dict[str, str],
) -> None:
    places = Places(Path(environ["SLUICE_HOME"]))
    identity, secrets = read_role("all", environ, places)

    own = build_processes(environ, places, identity, secrets)

    assert own["markers"].secrets == {"SLUICE_MARKER_SECRET": "marker-secret"}
    assert list(own) == ["markers", "web", "worker", "control", "mirror", "messages", "beat"]
    words = [word for process in own.values() for word in process.command]
    assert [word for word in words if word.endswith("-secret")] == []


def test_a_worker_of_several_queues_is_one_process_with_the_jobs_of_all(
    environ: dict[str, str],
) -> None:
    places = Places(Path(environ["SLUICE_HOME"]))
    identity, secrets = read_role("worker", environ, places)
    template = build_processes(environ, places, identity, secrets)["worker"]

    reader = build_worker(environ, template, ("control", "mirror"), None)
    engine = build_worker(environ, template, QUEUES, 3)

    assert "control,mirror" in reader.command
    assert "control-mirror@%h" in reader.command
    assert reader.command[reader.command.index("--concurrency") + 1] == "4"
    assert reader.memory_bytes_max > 0
    assert engine.command[engine.command.index("--concurrency") + 1] == "3"
    assert engine.memory_bytes_max == 0


@pytest.mark.django_db
def test_a_migrated_database_lacks_nothing() -> None:
    assert count_missing_migrations() == 0


@pytest.mark.process
@pytest.mark.parametrize("role", ["web", "worker"])
def test_an_unmigrated_database_is_refused_in_one_sentence(
    environ: dict[str, str], tmp_path: Path, role: str
) -> None:
    own = {**environ, "SLUICE_DATABASE": str(tmp_path / "db.sqlite3")}

    ended = manage(own, *COMMANDS[role])

    assert ended.returncode == 1
    assert ended.stderr.startswith("CommandError: the database of SLUICE_DATABASE lacks ")
    assert "run `migrate` once" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.process
def test_a_database_that_does_not_answer_is_awaited_and_named_without_its_password(
    environ: dict[str, str],
) -> None:
    address = f"postgres://sluice:a-password@127.0.0.1:{find_free_port()}/sluice"

    ended = manage({**environ, "SLUICE_DATABASE": address}, "web", "--wait", "1")

    assert ended.returncode == 1
    assert "the database of SLUICE_DATABASE does not answer after 1 s: " in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "a-password" not in ended.stderr


def test_beat_works_while_its_last_tick_is_young(environ: dict[str, str]) -> None:
    places = Places(Path(environ["SLUICE_HOME"]))
    places.create()
    assert beat_works(places) == "it has not worked yet"

    places.beat_tick.touch()
    assert beat_works(places) is None

    long_ago = time.time() - 2 * BEAT_QUIET_S
    os.utime(places.beat_tick, (long_ago, long_ago))
    assert "it last worked 120 s ago" in str(beat_works(places))


@pytest.mark.parametrize("words", [["web"], ["markers"], ["beat"]])
def test_a_role_that_does_not_run_fails_its_check(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    for name in ("SLUICE_WEB_PORT", "SLUICE_MARKER_PORT"):
        monkeypatch.setenv(name, str(find_free_port()))

    with pytest.raises(CommandError, match=f"^{words[0]}: "):
        call_command("ping", *words)


@pytest.mark.process
def test_a_writer_reaches_the_marker_server_of_another_address(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(port: int) -> subprocess.Popen[str]:
        own = {"SLUICE_MARKER_HOST": "127.0.0.2", "SLUICE_MARKER_PORT": str(port)}
        # It gets neither a database nor a key.
        needed = {name: environ[name] for name in ("PATH", "SLUICE_HOME", *NEEDS["markers"])}
        server = subprocess.Popen(
            [sys.executable, "manage.py", "markers"],
            cwd=PROJECT,
            env={**needed, **own},
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline_s = time.monotonic() + WAIT_S_MAX
        while server_works("127.0.0.2", port) is not None:
            if server.poll() is not None or time.monotonic() > deadline_s:
                server.kill()
                raise AssertionError(server.communicate()[1])
            time.sleep(0.1)
        monkeypatch.setenv("SLUICE_MARKER_URL", f"http://127.0.0.2:{port}")
        return server

    server = start_on_free_ports(start)
    try:
        url = os.environ["SLUICE_MARKER_URL"]
        columns: list[pa.Field[Any]] = [pa.field("id", pa.string()), pa.field("ts", pa.int64())]
        table = create_table(
            tmp_path / "trips",
            name="trips",
            schema=pa.schema(columns),
            record_key=["id"],
            ordering=["ts"],
        )
        batch = pa.table({"id": ["a"], "ts": [1]})
        table.write(batch, options={"hoodie.write.markers.type": "timeline_server_based"})

        counts = sample(url, "marker-secret", WAIT_S_MAX)
        assert counts is not None
        assert counts["markers_created"] == 1
        assert probe(url.replace("127.0.0.2", "127.0.0.1"), 1.0) is None
    finally:
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=WAIT_S_MAX)
    assert server.returncode == 0, errors


TOGETHER = """
import os, sys
from pathlib import Path
from controlplane.node.foreground import ProcessEnded, run_together
from controlplane.node.identity import build_identity
from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import Process

def process(name, program):
    return Process(name, (sys.executable, "-c", program), {}, PROJECT, 10)

places = Places(Path(os.environ["SLUICE_HOME"]))
places.create()
identity = build_identity(os.environ, node="a-role")
service, worker, drain_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
try:
    run_together(
        [process("service", service)], [process("worker", worker)], places, identity,
        drain_s=drain_s, report=lambda line: print(line, flush=True),
    )
except ProcessEnded as error:
    sys.exit(str(error))
"""
NOTE = (
    "import os, signal, subprocess, sys, time\n"
    "from pathlib import Path\n"
    "home = Path(os.environ['SLUICE_HOME'])\n"
    "def note(line):\n"
    "    with (home / 'notes').open('a') as notes: notes.write(line + '\\n')\n"
    "def leave(name):\n"
    "    def handler(*_): note(name + ' stopped'); os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, handler)\n"
)
SERVICE = NOTE + "leave('service'); note('service started'); time.sleep(600)"
WRITER = (
    NOTE + "leave('writer'); note('writer started'); time.sleep({seconds}); note('writer done')"
)
WORKER = (
    NOTE
    + "leave('worker')\n"
    + "subprocess.Popen([sys.executable, '-c', {writer!r}, 'workers.spark.runner'],"
    + " start_new_session=True)\n"
    + "time.sleep(600)"
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("seconds", "drain_s", "ending"), [(600, 0, "writer stopped"), (3, 60, "writer done")]
)
def test_a_stop_ends_the_workers_then_their_writers_then_the_services(
    environ: dict[str, str], seconds: int, drain_s: int, ending: str
) -> None:
    writer = WRITER.format(seconds=seconds)
    with together(environ, SERVICE, WORKER.format(writer=writer), drain_s) as (command, notes):
        wait_until(lambda: {"service started", "writer started"} <= set(notes()))

        command.send_signal(signal.SIGTERM)
        printed, errors = command.communicate(timeout=WAIT_S_MAX)

    assert (command.returncode, errors) == (0, "")
    assert printed.splitlines()[0] == "stopping: no new work"
    assert notes()[-3:] == ["worker stopped", ending, "service stopped"]


@pytest.mark.process
def test_the_end_of_one_process_stops_the_others_and_is_a_failure(environ: dict[str, str]) -> None:
    with together(environ, SERVICE, NOTE + "time.sleep(1); sys.exit(3)", 0) as (command, notes):
        _, errors = command.communicate(timeout=WAIT_S_MAX)

    assert command.returncode == 1
    assert errors == "worker ended with 3; the others were stopped\n"
    assert notes() == ["service started", "service stopped"]


@contextmanager
def together(
    environ: dict[str, str], service: str, worker: str, drain_s: int
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], list[str]]]]:
    """Run the two programs as a role does, with a function that reads what they noted."""
    path = Path(environ["SLUICE_HOME"]) / "notes"

    def read_notes() -> list[str]:
        return path.read_text().splitlines() if path.is_file() else []

    with subprocess.Popen(
        [sys.executable, "-c", TOGETHER, service, worker, str(drain_s)],
        cwd=PROJECT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        try:
            yield command, read_notes
        finally:
            command.kill()


def manage(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=PROJECT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * WAIT_S_MAX,
    )


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
