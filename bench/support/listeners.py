"""Programs that listen on a free port of loopback: started, and started again when it was taken."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from workers.processes import listens_at, start_on_free_ports

_POLL_S = 0.02
_LOG_TAIL_BYTES = 8_000


class ListenerFailed(AssertionError):
    """The program ended, or did not listen in time; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Listener:
    process: subprocess.Popen[Any]
    port: int

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def start_listener(
    start: Callable[[int, IO[bytes]], subprocess.Popen[Any]], log: Path, *, wait_s: float = 120.0
) -> Listener:
    """Return the process that `start` starts, once it listens on its port.

    `start` gets the port and the open file for the output of the program. Raises ListenerFailed.
    """

    def start_once(port: int) -> Listener:
        with log.open("wb") as output:
            listener = Listener(start(port, output), port)
        try:
            _await(listener, log, wait_s)
        except BaseException:
            listener.stop()
            raise
        return listener

    return start_on_free_ports(start_once)


def _await(listener: Listener, log: Path, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while not listens_at(listener.process.pid, listener.port):
        has_ended = listener.process.poll() is not None
        if has_ended or time.monotonic() > deadline_s:
            tail = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
            raise ListenerFailed(f"{listener.process.args!r} does not listen: {tail}")
        time.sleep(_POLL_S)
