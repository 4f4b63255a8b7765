"""`down` ends every process of its own node and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.node.identity import Identity
from controlplane.node.living import end, processes_of, supervisor_pid
from controlplane.node.places import Places

IDENTITY = Identity(node="n1", web_port=1, spark_port=2, marker_port=3, sockets="/tmp/sluice-x")
SLEEP = "import time; time.sleep(60)"
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print(1, flush=True); time.sleep(60)"
)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(home=tmp_path / "home")
    places.create()
    return places


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(program: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def test_a_process_of_another_node_or_home_is_not_ours(places: Places, start: Start) -> None:
    ours = start(SLEEP, SLUICE_NODE="n1", SLUICE_HOME=str(places.home))
    start(SLEEP, SLUICE_NODE="n2", SLUICE_HOME=str(places.home))
    start(SLEEP, SLUICE_NODE="n1", SLUICE_HOME=f"{places.home}-copied")
    start(SLEEP)

    processes = processes_of(places, IDENTITY)

    assert [process.pid for process in processes] == [ours.pid]


def test_what_ignores_the_request_to_stop_is_killed(places: Places, start: Start) -> None:
    deaf = start(DEAF, SLUICE_NODE="n1", SLUICE_HOME=str(places.home))
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == "1\n"

    ended = end(processes_of(places, IDENTITY), patience_s=0.5)

    assert ended == 1
    assert not psutil.pid_exists(deaf.pid)


def test_a_pid_file_that_survived_a_crash_names_nobody(places: Places) -> None:
    places.supervisor_pid.write_text(str(os.getpid()))

    assert supervisor_pid(places) is None


def test_a_pid_file_of_a_process_that_is_gone_names_nobody(places: Places, start: Start) -> None:
    gone = start("")
    gone.wait(30)
    places.supervisor_pid.write_text(str(gone.pid))

    assert not psutil.pid_exists(gone.pid)
    assert supervisor_pid(places) is None
