"""The ports through which the engine touches the world, bundled so that a simulator can replace all
of them.

Storage is the fifth port and belongs to each table; these four belong to the process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from workers.clock import Clock, SystemClock
from workers.processes import Processes, SystemProcesses
from workers.repetitions import started


class Ids(Protocol):
    """Where fresh names come from, so that a simulator can draw them by a seed."""

    def token(self) -> str:
        """A fresh text without `_` that nobody else will ever use."""


class RandomIds:
    """Names by chance: 128 bits, 32 hexadecimal digits."""

    def token(self) -> str:
        """A version 4 UUID without its hyphens."""
        return uuid.uuid4().hex


class Repetition(Protocol):
    """What `Scheduler.every` started. Only whoever started it stops it."""

    def stop(self) -> None:
        """No call starts after this returns."""


class Scheduler(Protocol):
    """Runs actions again and again beside the caller; heartbeats and renewals of leases use it."""

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> Repetition:
        """Call `action` about every `interval_s` seconds, first after one interval, until
        stopped.
        """


class ThreadScheduler:
    """A daemon thread for each repetition that becomes due, and none for one that is stopped before
    that. An action that raises stops its own repetition and is reported.
    """

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> Repetition:
        """Call `action` every `interval_s` seconds in a thread of its own, until it is stopped.
        Where threads are short nothing is raised: a thread is tried for again.
        """
        return started(interval_s, action, name)


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything of the world that an engine object needs; small enough to hand on everywhere."""

    clock: Clock
    ids: Ids
    scheduler: Scheduler
    processes: Processes = field(default_factory=SystemProcesses)


def system_ports() -> Ports:
    """Those of this machine and process."""
    return Ports(clock=SystemClock(), ids=RandomIds(), scheduler=ThreadScheduler())
