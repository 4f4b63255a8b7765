"""Servers of tests start although another process takes the port that was chosen for them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from bench.support.listeners import Listener, ListenerFailed, start_listener
from bench.support.marker_server import (
    MarkerServerFailed,
    start_marker_server,
    start_marker_server_at,
)
from controlplane.node.processes import redis_server
from workers.processes import is_port_taken

REDIS = (str(redis_server()), "--bind", "127.0.0.1", "--save", "", "--port")
UVICORN = (
    *(sys.executable, "-m", "uvicorn", "tests.support.caller_echo:application"),
    *("--host", "127.0.0.1", "--lifespan", "off", "--port"),
)
SECRET = "a-secret-for-listeners"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    """Those that the test started."""
    started: list[Listener] = []
    yield started
    for listener in started:
        listener.stop()


@pytest.mark.parametrize("words", [REDIS, UVICORN], ids=["redis", "uvicorn"])
def test_server_whose_port_was_taken_gets_another_one(
    words: tuple[str, ...], taken_port: int, tmp_path: Path, listeners: list[Listener]
) -> None:
    ports: list[int] = []

    def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        ports.append(port if ports else taken_port)
        return _run((*words, str(ports[-1])))(port, output)

    listeners.append(start_listener(start, tmp_path / "log"))

    assert len(ports) == 2
    assert listeners[0].port == ports[-1] != taken_port
    socket.create_connection(("127.0.0.1", listeners[0].port), timeout=30).close()


def test_server_that_cannot_start_fails_with_its_log(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no such thing')")

    with pytest.raises(ListenerFailed, match="no such thing"):
        start_listener(_run(command), tmp_path / "log")


def test_server_that_does_not_listen_in_time_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import time; time.sleep(600)")

    with pytest.raises(ListenerFailed, match="does not listen"):
        start_listener(_run(command), tmp_path / "log", wait_s=0.2)


def test_marker_server_of_another_test_is_not_taken_for_the_own_one(tmp_path: Path) -> None:
    first = start_marker_server(roots=[tmp_path], secret=SECRET, log=tmp_path / "first.log")
    try:
        with pytest.raises(MarkerServerFailed) as error:
            start_marker_server_at(
                first.port, roots=[tmp_path], secret=SECRET, log=tmp_path / "second.log"
            )
        second = start_marker_server(roots=[tmp_path], secret=SECRET, log=tmp_path / "third.log")
        second.stop()
    finally:
        first.stop()

    assert is_port_taken(error.value)
    assert second.port != first.port


def _run(command: tuple[str, ...]) -> Callable[[int, IO[bytes]], subprocess.Popen[bytes]]:
    return lambda _, output: subprocess.Popen(command, stdout=output, stderr=output)
