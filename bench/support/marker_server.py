"""A marker server in a process of its own, on a free port of loopback."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.markers.process import probe, server_url, start_server, stop
from workers.processes import start_on_free_ports

_WAIT_MAX_S = 60.0
_POLL_S = 0.02


class MarkerServerFailed(AssertionError):
    """The server ended, or did not answer in time; the message is its log."""


@dataclass(frozen=True, slots=True)
class RunningMarkerServer:
    port: int
    pid: int

    @property
    def url(self) -> str:
        return server_url(self.port)

    def stop(self) -> None:
        stop(self.pid, port=self.port)


def start_marker_server(
    *, roots: Sequence[str | Path], secret: str, log: Path, options: Sequence[str] = ()
) -> RunningMarkerServer:
    """Start a server on a free port, and return it once it answers. Raises MarkerServerFailed."""

    def start(port: int) -> RunningMarkerServer:
        log.unlink(missing_ok=True)
        return start_marker_server_at(port, roots=roots, secret=secret, log=log, options=options)

    return start_on_free_ports(start)


def start_marker_server_at(
    port: int, *, roots: Sequence[str | Path], secret: str, log: Path, options: Sequence[str] = ()
) -> RunningMarkerServer:
    """Start a server on this port, and return it once it answers. Raises MarkerServerFailed."""
    pid = start_server(port=port, roots=roots, secret=secret, log_path=log, options=options)
    deadline_s = time.monotonic() + _WAIT_MAX_S
    while (health := probe(server_url(port), timeout_s=1.0)) is None or health.pid != pid:
        if _has_ended(pid) or time.monotonic() > deadline_s:
            stop(pid, port=port)
            raise MarkerServerFailed(log.read_text())
        time.sleep(_POLL_S)
    return RunningMarkerServer(port, pid)


def _has_ended(pid: int) -> bool:
    """Check a child of this process, without taking its exit status."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
