"""Tasks that repeat until they are stopped: one thread of the process waits for the first run of
all of them, and each due task continues in a thread of its own.

A lock is held for a tenth of a second and a write lasts for some, so most are stopped long before
they are due. Starting and ending a thread for each costs more than its purpose: both wait for the
other threads of the process. An action may hang with its storage without delaying another.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from workers.clock import SystemClock

_AGAIN_S: Final = 1.0
"""After the system refused a thread."""
_SLEEP_MAX_S: Final = 3_600.0
_STOPPED_MAX: Final = 1_000
"""The limit for waiting tasks: when there are more of them, the stopped ones are dropped."""
_CLOCK: Final = SystemClock()
_log = logging.getLogger(__name__)


class RepeatingThread:
    """A repeating task in a thread; see `workers.ports.RepeatingTask`."""

    def __init__(self, interval_s: float, action: Callable[[], None], name: str) -> None:
        self._interval_s = interval_s
        self._action: Callable[[], None] | None = action
        self._name = name
        self._stopped = threading.Event()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        _ACTIVE.add(self)

    @property
    def is_stopped(self) -> bool:
        """True after a call of `stop`; a call of the action may still be running."""
        return self._stopped.is_set()

    def begin(self) -> None:
        """Begin the first run. Raises RuntimeError when the system has no thread for it."""
        with self._changing:
            if self._stopped.is_set() or self._action is None:
                return
            thread = threading.Thread(
                target=self._run, args=(self._action,), name=self._name, daemon=True
            )
            thread.start()
            self._thread = thread

    def _run(self, action: Callable[[], None]) -> None:
        try:
            while not self._stopped.is_set():
                action()
                self._stopped.wait(self._interval_s)
        finally:
            _ACTIVE.discard(self)

    def stop(self) -> None:
        """Wait for a running call, unless it is this call that stops. May be called again."""
        with self._changing:
            self._stopped.set()
            self._action = None  # It may wait in line for a while yet, and holds a lot.
            thread = self._thread
            _ACTIVE.discard(self)
        if thread is not None and threading.current_thread() is not thread:
            thread.join()


class _Line:
    """Tasks before their first run, by its time. Thread-safe."""

    _waiting: list[tuple[float, int, RepeatingThread]]
    _changed: threading.Condition
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self._numbers = count()
        self._wakes_at_s = 0.0
        self.forget()

    def forget(self) -> None:
        """Reset in a forked process: it has no threads, and a lock may have been held at the
        fork.
        """
        self._waiting = []
        self._changed = threading.Condition(threading.Lock())
        self._thread = None

    def add(self, at_s: float, repetition: RepeatingThread) -> None:
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="sluice-due", daemon=True)
                thread.start()
                self._thread = thread
            if len(self._waiting) > _STOPPED_MAX:
                self._waiting = sorted(entry for entry in self._waiting if not entry[2].is_stopped)
            heappush(self._waiting, (at_s, next(self._numbers), repetition))
            if at_s < self._wakes_at_s:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            due = self._next()
            try:
                due.begin()
            except RuntimeError as error:
                _log.warning("no thread for what is due, trying again: error=%s", error)
                self.add(_CLOCK.monotonic_s() + _AGAIN_S, due)

    def _next(self) -> RepeatingThread:
        """Wait for the next task, without waking up for stopped ones."""
        with self._changed:
            while True:
                while self._waiting and self._waiting[0][2].is_stopped:
                    heappop(self._waiting)
                now_s = _CLOCK.monotonic_s()
                if self._waiting and self._waiting[0][0] <= now_s:
                    return heappop(self._waiting)[2]
                self._wakes_at_s = self._waiting[0][0] if self._waiting else now_s + _SLEEP_MAX_S
                self._changed.wait(min(self._wakes_at_s - now_s, _SLEEP_MAX_S))


_LINE: Final = _Line()
_ACTIVE: Final[set[RepeatingThread]] = set()
os.register_at_fork(after_in_child=_LINE.forget)
os.register_at_fork(after_in_child=_ACTIVE.clear)


def active_repetitions() -> frozenset[RepeatingThread]:
    """Return the repetitions of this process that were started and not stopped."""
    return frozenset(_ACTIVE.copy())


def start_repeating(interval_s: float, action: Callable[[], None], name: str) -> RepeatingThread:
    """Start a task after one interval, in seconds, in a daemon thread named `name`."""
    repetition = RepeatingThread(interval_s, action, name)
    _LINE.add(_CLOCK.monotonic_s() + interval_s, repetition)
    return repetition
