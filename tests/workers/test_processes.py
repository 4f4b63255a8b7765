"""Whether a process has ended is told only where it is proved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from workers.processes import ProcessName, SystemProcesses, this_process

_TELL = (
    "import json; from workers.processes import this_process;"
    "print(json.dumps(this_process().to_json()), flush=True); input()"
)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def test_process_lives_while_it_is_stopped_and_has_ended_when_it_is_killed(
    other: subprocess.Popen[str],
) -> None:
    import json

    assert other.stdout is not None
    name = ProcessName.from_json(json.loads(other.stdout.readline()))
    assert name is not None
    processes = SystemProcesses()
    assert not processes.has_ended(name)

    other.send_signal(signal.SIGSTOP)
    assert not processes.has_ended(name)

    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # Nobody has asked about it yet.
    assert processes.has_ended(name)
    other.wait()
    assert processes.has_ended(name)


@pytest.mark.parametrize(
    "change", [{"host": "elsewhere"}, {"boot": "another boot"}, {"boot": ""}, {"started": ""}]
)
def test_what_ran_elsewhere_or_does_not_tell_proves_nothing(change: dict[str, str]) -> None:
    gone = replace(this_process(), pid=2**22 - 1)
    assert SystemProcesses().has_ended(gone)

    assert not SystemProcesses().has_ended(replace(gone, **change))  # type: ignore[arg-type]


def test_number_that_is_another_processs_by_now_has_ended() -> None:
    assert not SystemProcesses().has_ended(this_process())

    assert SystemProcesses().has_ended(replace(this_process(), started="1"))


@pytest.mark.parametrize(
    "heartbeat", [{}, {"host": "a", "pid": 1}, {"host": 1, "boot": "b", "pid": 2, "started": "3"}]
)
def test_heartbeat_of_another_engine_names_no_process(heartbeat: dict[str, object]) -> None:
    assert ProcessName.from_json(heartbeat) is None
