"""Ports of a world that stands still: time moves when somebody sleeps, ids count up, nothing runs
by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from workers.ports import Ports, RepeatingTask
from workers.processes import ProcessName

START_MS = 1_790_000_000_000


class StillClock:
    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._now_ms += max(1, int(seconds * 1000))

    def wait(self, event: Event, seconds: float) -> None:
        if not event.is_set():  # Nobody else moves while this one stands in line.
            self.sleep(seconds)


class CountingIds:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0

    def token(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"


class StillScheduler:
    def every(self, interval_s: float, action: Callable[[], None], *, name: str) -> RepeatingTask:
        return _Never()


class _Never:
    def stop(self) -> None:
        return None


class OneProcess:
    """Of one who died before the next began: whoever looks is the only one who lives."""

    def __init__(self, name: str) -> None:
        self._name = ProcessName("still", "boot", 1, name)

    def here(self) -> ProcessName:
        return self._name

    def has_ended(self, process: ProcessName) -> bool:
        return process != self._name


def still_ports(clock: StillClock, *, prefix: str) -> Ports:
    return Ports(clock, CountingIds(prefix), StillScheduler(), OneProcess(prefix))
