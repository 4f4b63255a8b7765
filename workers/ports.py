"""The ports through which the engine touches the world, bundled so that a simulator can replace all
of them.

Storage is the fifth port and belongs to each table; these three belong to the process.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from workers.clock import Clock, SystemClock


class Ids(Protocol):
    def token(self) -> str:
        """A fresh text without `_` that nobody else will ever use."""


class RandomIds:
    def token(self) -> str:
        return uuid.uuid4().hex


class Repetition(Protocol):
    def stop(self) -> None:
        """No call starts after this returns."""


class Scheduler(Protocol):
    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> Repetition:
        """Call `action` about every `interval_s` seconds, first after one interval, until
        stopped.
        """


class ThreadScheduler:
    """One daemon thread per repetition. An action that raises stops its own repetition and is
    reported.
    """

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> Repetition:
        return _ThreadRepetition(interval_s, action, name)


class _ThreadRepetition:
    def __init__(self, interval_s: float, action: Callable[[], None], name: str) -> None:
        self._interval_s = interval_s
        self._action = action
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._action()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    ids: Ids
    scheduler: Scheduler


def system_ports() -> Ports:
    return Ports(clock=SystemClock(), ids=RandomIds(), scheduler=ThreadScheduler())
