"""Which process this is, and whether another one has ended.

Only what is proved counts: a process has ended when it is gone from the very host, boot and process
namespace that it named, or when its number is another one's by now. What runs elsewhere proves
nothing, and neither does a host that does not tell.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

_PROC: Final = Path("/proc")
_ENDED: Final = ("Z", "X")
"""States of a process that runs no more, and that nobody has asked about yet."""


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process, named so that no later process can be taken for it."""

    host: str
    boot: str
    """Of the host, with the namespace in which `pid` counts; empty where nobody tells."""
    pid: int
    started: str
    """In ticks since the boot: another process of the same number began later."""

    def to_json(self) -> dict[str, Any]:
        """What heartbeats and locks store; `from_json` reads it back."""
        return {"host": self.host, "boot": self.boot, "pid": self.pid, "started": self.started}

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> ProcessName | None:
        """The process that a record names; None where it names none as we do, such as a heartbeat
        of another engine.
        """
        match members:
            case {"host": str(host), "boot": str(boot), "pid": int(pid), "started": str(started)}:
                return cls(host, boot, pid, started)
            case _:
                return None


class Processes(Protocol):
    """Who asks, and who has provably ended."""

    def here(self) -> ProcessName:
        """The process that asks."""

    def has_ended(self, process: ProcessName) -> bool:
        """Whether that is proved."""


class SystemProcesses:
    """As `/proc` tells; on a machine without it nothing is ever proved."""

    def here(self) -> ProcessName:
        """The calling process, also after a fork."""
        pid = os.getpid()
        return ProcessName(socket.gethostname(), _boot(), pid, _started(pid) or "")

    def has_ended(self, process: ProcessName) -> bool:
        """True only for a process of this very host, boot and namespace that runs no more."""
        here = self.here()
        is_here = (here.host, here.boot) == (process.host, process.boot)
        if not (is_here and process.boot and process.started):
            return False
        return _started(process.pid) != process.started


def this_process() -> ProcessName:
    """For values that are shipped to other processes, which compare it with their own."""
    return SystemProcesses().here()


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:  # No Linux: nothing is proved then.
        return ""


def _started(pid: int) -> str | None:
    """None when no such process runs."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _ENDED else fields[19]
