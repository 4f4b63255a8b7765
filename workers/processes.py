"""The identity of this process, proof that another one has ended, and starts on a free port.

Only proof counts: a process has ended when it is missing from the very host, boot and process
namespace that it named, or when its number now belongs to another one. A process elsewhere proves
nothing, and neither does a host without this information.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

_PROC: Final = Path("/proc")
_ENDED: Final = ("Z", "X")
"""States of a process that has ended without being reaped."""
LOOPBACK: Final = "127.0.0.1"
_PORTS: Final = range(20_000, 32_768)
"""Linux takes ports from 32768 on for outgoing connections and for sockets that name no port."""
_START_TRIES_MAX: Final = 5
_PORT_TAKEN: Final = ("address already in use", "bindexception")
"""How programs report `EADDRINUSE`, in lower or upper case; Spark names only the exception."""
_next_port = itertools.count(os.getpid() * 101)
"""Processes begin at different ports, and one process never gets a port twice in a row."""
_Started = TypeVar("_Started")


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process, named so that no later process can be taken for it."""

    host: str
    boot: str
    """The boot of the host, with the namespace in which `pid` counts; empty if it is unknown."""
    pid: int
    started: str
    """In ticks since the boot: another process of the same number began later."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that heartbeats and locks store; `from_json` reads it back."""
        return {"host": self.host, "boot": self.boot, "pid": self.pid, "started": self.started}

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> ProcessName | None:
        """Parse the process in a record; None if it is not in our form, such as a heartbeat of
        another engine.
        """
        match members:
            case {"host": str(host), "boot": str(boot), "pid": int(pid), "started": str(started)}:
                return cls(host, boot, pid, started)
            case _:
                return None


class Processes(Protocol):
    """The identity of the caller, and proof of the end of others."""

    def here(self) -> ProcessName:
        """Return the calling process."""

    def has_ended(self, process: ProcessName) -> bool:
        """Return True if the end of the process is proved."""


class SystemProcesses:
    """Processes by `/proc`; on a machine without it nothing is ever proved."""

    def here(self) -> ProcessName:
        """Return the calling process, also after a fork."""
        pid = os.getpid()
        return ProcessName(socket.gethostname(), _boot(), pid, _read_start_time(pid) or "")

    def has_ended(self, process: ProcessName) -> bool:
        """Return True only for a process of this very host, boot and namespace that has ended."""
        here = self.here()
        is_here = (here.host, here.boot) == (process.host, process.boot)
        if not (is_here and process.boot and process.started):
            return False
        return _read_start_time(process.pid) != process.started


def this_process() -> ProcessName:
    """Return this process for values that are shipped to others, which compare it with their
    own.
    """
    return SystemProcesses().here()


def start_on_free_ports(start: Callable[..., _Started], *, count: int = 1) -> _Started:
    """Call `start` with `count` free ports of loopback, and again with others if one was taken.

    A program binds its port only some time after the port was chosen, so another process may bind
    it first. `start` must raise an error that contains the program's own message then, or OSError.
    Its error is raised again if the last of 5 tries fails, or if the error has another cause.
    """
    for _ in range(_START_TRIES_MAX - 1):
        try:
            return start(*find_free_ports(count))
        except Exception as error:
            if not is_port_taken(error):
                raise
    return start(*find_free_ports(count))


def is_port_taken(error: Exception) -> bool:
    """Check whether a program or a socket failed because another process has its port."""
    has_errno = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    message = str(error).lower()
    return has_errno or any(words in message for words in _PORT_TAKEN)


def find_free_ports(count: int) -> tuple[int, ...]:
    """Return different ports of loopback on which nothing listens now.

    `start_on_free_ports` is for a program that can be started again; ports of this function are for
    one whose port is configured before. They are below those that Linux assigns, so that no
    outgoing connection takes one.
    """
    ports: list[int] = []
    with ExitStack() as stack:
        for number in itertools.islice(_next_port, len(_PORTS)):
            port = _PORTS[number % len(_PORTS)]
            probe = stack.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return tuple(ports)
    raise OSError(errno.EADDRINUSE, f"no {count} free ports of {LOOPBACK} in {_PORTS}")


def find_free_port() -> int:
    """Return a port of loopback on which nothing listens now."""
    (port,) = find_free_ports(1)
    return port


def get_address(host: str, port: int) -> str:
    """Return the URL at which this machine reaches a server that listens on the host."""
    reachable = reachable_host(host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def reachable_host(host: str) -> str:
    """Return the address that a client on this machine connects to: loopback for a server that
    listens on all addresses.
    """
    return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104  (compared, not bound)


def listens_at(pid: int, port: int) -> bool:
    """Check whether this very process listens on the port; another one's answer proves nothing."""
    import psutil  # Executors and the marker server never need it.

    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in connections
    )


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:  # No Linux: nothing is proved then.
        return ""


def _read_start_time(pid: int) -> str | None:
    """Return the start time of a process, or None when no such process runs."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _ENDED else fields[19]
