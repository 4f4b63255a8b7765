"""The ports for all effects of the engine, bundled so that a simulator can replace all of them.

Storage is the fifth port and belongs to each table; these four belong to the process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from workers.clock import Clock, SystemClock
from workers.processes import Processes, SystemProcesses
from workers.repeating_tasks import start_repeating


class Ids(Protocol):
    """The source of new names, so that a simulator can choose them by a seed."""

    def token(self) -> str:
        """Return a new text without `_` that no other call will ever return."""


class RandomIds:
    """Random names: 128 bits, 32 hexadecimal digits."""

    def token(self) -> str:
        """Return a version 4 UUID without its hyphens."""
        return uuid.uuid4().hex


class RepeatingTask(Protocol):
    """A task that `Scheduler.every` started. Only its starter stops it."""

    def stop(self) -> None:
        """Stop the calls: none starts after this returns."""


class Scheduler(Protocol):
    """Runs repeated actions concurrently with the caller; heartbeats and renewals of leases
    use it.
    """

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> RepeatingTask:
        """Call `action` about every `interval_s` seconds, first after one interval, until
        stopped.
        """


class ThreadScheduler:
    """A daemon thread for each repetition that becomes due, and none for one that is stopped before
    that. An action that raises stops its own repetition and is reported.
    """

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> RepeatingTask:
        """Call `action` every `interval_s` seconds in a thread of its own, until it is stopped.
        Where threads are short nothing is raised: a thread is tried for again.
        """
        return start_repeating(interval_s, action, name)


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports that an engine object needs; small enough to pass on everywhere."""

    clock: Clock
    ids: Ids
    scheduler: Scheduler
    processes: Processes = field(default_factory=SystemProcesses)


def system_ports() -> Ports:
    """Return the ports of this machine and process."""
    return Ports(clock=SystemClock(), ids=RandomIds(), scheduler=ThreadScheduler())
