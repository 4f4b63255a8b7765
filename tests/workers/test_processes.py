"""Whether a process has ended is told only where it is proved."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from workers.processes import (
    ProcessName,
    SystemProcesses,
    find_free_ports,
    is_port_taken,
    listens_at,
    start_on_free_ports,
    this_process,
)

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


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A listener that has the port which a program is about to bind."""
    with socket.socket() as listener:
        yield listener


def occupy(listener: socket.socket, port: int) -> None:
    listener.bind(("127.0.0.1", port))
    listener.listen()


def test_a_start_whose_port_was_taken_is_tried_with_another_one(taken: socket.socket) -> None:
    ports: list[int] = []

    def start(port: int) -> socket.socket:
        ports.append(port)
        if len(ports) == 1:
            occupy(taken, port)  # After the port was chosen, and before it is bound.
        server = socket.socket()
        try:
            occupy(server, port)
        except OSError:
            server.close()
            raise
        return server

    with start_on_free_ports(start) as server:
        assert server.getsockname()[1] == ports[-1]

    assert len(set(ports)) == len(ports) == 2


def test_a_start_that_fails_for_another_reason_is_not_tried_again() -> None:
    ports: list[int] = []

    def start(port: int) -> None:
        ports.append(port)
        raise AssertionError("no such program")

    with pytest.raises(AssertionError, match="no such program"):
        start_on_free_ports(start)

    assert len(ports) == 1


def test_after_five_tries_the_error_of_the_start_is_raised() -> None:
    ports: list[tuple[int, int]] = []

    def start(first: int, second: int) -> None:
        ports.append((first, second))
        raise AssertionError("bind: Address already in use")

    with pytest.raises(AssertionError, match="Address already in use") as error:
        start_on_free_ports(start, count=2)

    assert is_port_taken(error.value)
    assert len(ports) == 5


def test_free_ports_are_different_and_none_that_the_system_assigns(taken: socket.socket) -> None:
    ports = find_free_ports(200)

    assert len(set(ports)) == 200
    assert max(ports) < 32_768
    occupy(taken, ports[0])
    assert is_port_taken(bind_error(ports[0]))


def bind_error(port: int) -> OSError:
    with socket.socket() as probe, pytest.raises(OSError, match="in use") as error:
        probe.bind(("127.0.0.1", port))
    return error.value


def test_only_the_process_that_listens_is_taken_for_it(
    other: subprocess.Popen[str], taken: socket.socket
) -> None:
    occupy(taken, find_free_ports(1)[0])
    port = taken.getsockname()[1]

    assert listens_at(os.getpid(), port)
    assert not listens_at(os.getpid(), port + 1)
    assert not listens_at(other.pid, port)
    assert not listens_at(2**22 - 1, port)
