"""A wall clock that a test sets, and a scheduler whose threads a test can stop: how a writer dies
without a process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import ClassVar
from uuid import uuid4

from workers.clock import SystemClock
from workers.ports import Repetition, ThreadScheduler
from workers.processes import ProcessName, SystemProcesses, this_process

_SIMULATED = "simulated-"


class ManualClock:
    """Wall time stands still until `advance`; deadlines and sleeps are real, so nothing hangs."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> None:
        event.wait(seconds)


class SkewedClock(SystemClock):
    """The clock of a machine that is `ahead_ms` before everybody else's."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class MortalProcess:
    """A writer that is a process of its own as far as others can tell: it ends when the test says
    so. Of real processes the system tells.
    """

    _ended: ClassVar[set[ProcessName]] = set()

    def __init__(self) -> None:
        self._name = replace(this_process(), started=f"{_SIMULATED}{uuid4().hex}")

    def here(self) -> ProcessName:
        return self._name

    def has_ended(self, process: ProcessName) -> bool:
        if process.started.startswith(_SIMULATED):
            return process in self._ended
        return SystemProcesses().has_ended(process)

    def ends(self) -> None:
        self._ended.add(self._name)


class MortalScheduler:
    """Real threads that all end when the writer they belong to dies."""

    def __init__(self) -> None:
        self._threads = ThreadScheduler()
        self._repetitions: list[_Mortal] = []

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> Repetition:
        repetition = _Mortal(name, self._threads.every(interval_s, action, name=name))
        self._repetitions.append(repetition)
        return repetition

    @property
    def running(self) -> list[str]:
        return [one.name for one in self._repetitions if not one.is_stopped]

    def stop_all(self) -> None:
        for repetition in self._repetitions:
            repetition.stop()


class _Mortal:
    def __init__(self, name: str, repetition: Repetition) -> None:
        self.name = name
        self.is_stopped = False
        self._repetition = repetition

    def stop(self) -> None:
        self._repetition.stop()
        self.is_stopped = True
