"""Checks that are asked all at once and answer in bounded time, however long one of them hangs.

Each runs in a thread of its own, never twice at a time, and its answer is good for a moment: many
who ask at once cost no more than one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

BOUND_S = 3.0
KEPT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one check says now."""

    cause: str = ""
    """Why it is not well; empty where it is. No secret, no name of a table."""
    age_s: float | None = None
    """How old the fact is that it rests on, where the check knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    name: str
    is_well: bool
    age_s: float | None
    """How long ago it was last well; None where it never was since this process began."""
    cause: str


Probe = Callable[[], Answer]


class _Check:
    """One probe and what is known of it. Guarded by the lock of its `Looks`."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.running_since_s: float | None = None
        self.answered_at_s: float | None = None
        self.answer = Answer(cause="it was not asked yet")
        self.well_at_s: float | None = None

    def is_due(self, now_s: float, kept_s: float) -> bool:
        is_old = self.answered_at_s is None or now_s - self.answered_at_s >= kept_s
        return self.running_since_s is None and is_old

    def end(self, answer: Answer, now_s: float) -> None:
        self.running_since_s, self.answered_at_s, self.answer = None, now_s, answer
        if not answer.cause:
            self.well_at_s = now_s

    def row(self, name: str, now_s: float) -> CheckRow:
        cause, age_s = self.answer.cause, self.answer.age_s
        if self.running_since_s is not None:
            cause, age_s = f"no answer for {now_s - self.running_since_s:.0f} s", None
        if age_s is None and self.well_at_s is not None:
            age_s = now_s - self.well_at_s
        return CheckRow(
            name=name,
            is_well=not cause,
            age_s=None if age_s is None else round(age_s, 1),
            cause=cause,
        )


class Looks:
    """Thread-safe. `bound_s` is how long `rows` waits at most, in seconds, `kept_s` how long an
    answer is good.
    """

    def __init__(
        self, probes: Mapping[str, Probe], *, bound_s: float = BOUND_S, kept_s: float = KEPT_S
    ) -> None:
        self._checks = {name: _Check(probe) for name, probe in probes.items()}
        self._bound_s, self._kept_s = bound_s, kept_s
        self._changed = threading.Condition()

    def rows(self) -> list[CheckRow]:
        """Every check, in the order in which they were given."""
        until_s = time.monotonic() + self._bound_s
        with self._changed:
            for name, check in self._checks.items():
                if check.is_due(time.monotonic(), self._kept_s):
                    check.running_since_s = time.monotonic()
                    thread = threading.Thread(
                        target=self._look, args=(check,), name=f"check {name}", daemon=True
                    )
                    thread.start()
            self._changed.wait_for(self._is_quiet, timeout=max(0.0, until_s - time.monotonic()))
            now_s = time.monotonic()
            return [check.row(name, now_s) for name, check in self._checks.items()]

    def _is_quiet(self) -> bool:
        return all(check.running_since_s is None for check in self._checks.values())

    def _look(self, check: _Check) -> None:
        try:
            answer = check.probe()
        except Exception as error:
            log.exception("a readiness check failed by itself")
            answer = Answer(cause=f"the check failed: {type(error).__name__}")
        with self._changed:
            check.end(answer, time.monotonic())
            self._changed.notify_all()
