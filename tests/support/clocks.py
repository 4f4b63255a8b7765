"""Clocks that a test moves, and schedulers whose repetitions a test can run or stop.

A writer dies here without a process of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import ClassVar
from uuid import uuid4

from workers.clock import SystemClock
from workers.ports import RepeatingTask, Scheduler, ThreadScheduler
from workers.processes import ProcessName, SystemProcesses, this_process

_SIMULATED = "simulated-"


class ManualClock:
    """A clock that moves only when a test advances it, or when somebody sleeps or waits on it.
    No call takes real time. Thread-safe.

    It is a scheduler too: repetitions run at their time, in the thread that moves the clock.
    """

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = now_ms
        self._repetitions: list[_ManualRepetition] = []
        self._changing = threading.Lock()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._monotonic_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Move both clocks. A negative number sets back the wall clock only."""
        if milliseconds < 0:
            with self._changing:
                self._now_ms += milliseconds
        else:
            self._move_to(self._monotonic_ms + milliseconds)

    def sleep(self, seconds: float) -> None:
        """Move the clock by at least a millisecond. Sleeps of several threads overlap."""
        self._move_to(self._monotonic_ms + max(1, math.ceil(seconds * 1000)))

    def wait(self, event: Event, seconds: float) -> None:
        """Return at once if the event is set, else sleep: other threads get no time to set it."""
        if seconds > 0 and not event.is_set():
            self.sleep(seconds)

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> RepeatingTask:
        interval_ms = max(1, math.ceil(interval_s * 1000))
        with self._changing:
            due_ms = self._monotonic_ms + interval_ms
            repetition = _ManualRepetition(interval_ms, action, due_ms)
            self._repetitions.append(repetition)
        return repetition

    def _move_to(self, target_ms: int) -> None:
        """Stop at each due repetition on the way, and run it."""
        while (due := self._move_to_next(target_ms)) is not None:
            due.run()

    def _move_to_next(self, target_ms: int) -> _ManualRepetition | None:
        """Move to the first repetition due before the target, or to the target."""
        with self._changing:
            self._repetitions = [each for each in self._repetitions if not each.is_stopped]
            due = min(self._repetitions, key=lambda each: each.due_ms, default=None)
            if due is not None and due.due_ms > target_ms:
                due = None
            step_ms = max(0, (due.due_ms if due else target_ms) - self._monotonic_ms)
            self._now_ms += step_ms
            self._monotonic_ms += step_ms
            if due is not None:
                due.due_ms += due.interval_ms
            return due


@dataclass(eq=False, slots=True)
class _ManualRepetition:
    interval_ms: int
    action: Callable[[], None]
    due_ms: int
    is_stopped: bool = False
    _running: threading.RLock = field(default_factory=threading.RLock)

    def run(self) -> None:
        """Skip this time if the action still runs in another thread."""
        if self._running.acquire(blocking=False):
            try:
                if not self.is_stopped:
                    self.action()
            finally:
                self._running.release()

    def stop(self) -> None:
        with self._running:
            self.is_stopped = True


class FrozenClock(SystemClock):
    """The wall clock stands still; deadlines and sleeps are real. For tests of many threads that
    need time for each other.
    """

    def now_ms(self) -> int:
        return 1_750_000_000_000


class SkewedClock(SystemClock):
    """The clock of a machine that is `ahead_ms` before everybody else's. Each of its pauses takes a
    millisecond of real time: a test need not wait for the end of a lease.
    """

    _PAUSE_S: ClassVar[float] = 0.001

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms
        self._paused_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms + int(self._paused_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._paused_s

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, self._PAUSE_S))
        self._paused_s += seconds

    def wait(self, event: Event, seconds: float) -> None:
        super().wait(event, min(seconds, self._PAUSE_S))
        if not event.is_set():
            self._paused_s += seconds


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
    """Repetitions that all end when the writer they belong to dies. They run in real threads,
    unless a `ManualClock` is given as the scheduler.
    """

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler or ThreadScheduler()
        self._repetitions: list[_Mortal] = []

    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> RepeatingTask:
        repetition = _Mortal(name, self._scheduler.every(interval_s, action, name=name))
        self._repetitions.append(repetition)
        return repetition

    @property
    def running(self) -> list[str]:
        return [one.name for one in self._repetitions if not one.is_stopped]

    def stop_all(self) -> None:
        for repetition in self._repetitions:
            repetition.stop()


class _Mortal:
    def __init__(self, name: str, repetition: RepeatingTask) -> None:
        self.name = name
        self.is_stopped = False
        self._repetition = repetition

    def stop(self) -> None:
        self._repetition.stop()
        self.is_stopped = True
