"""A runner of concurrent checks that returns in bounded time, even if a check hangs.

Each check runs in its own thread, never twice at a time. Its answer is cached for a moment, so many
concurrent callers cost as much as one.
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
    """The answer of a check."""

    cause: str = ""
    """The reason for a failure, without secrets and names of tables; empty on success."""
    age_s: float | None = None
    """The age of the underlying fact, if the check has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    name: str
    is_well: bool
    age_s: float | None
    """Seconds since the last success; None without a success in this process."""
    cause: str


Probe = Callable[[], Answer]


class _Check:
    """A probe with its last answer. Guarded by the lock of its `CheckRunner`."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.running_since_s: float | None = None
        self.answered_at_s: float | None = None
        self.answer = Answer(cause="not checked yet")
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


class CheckRunner:
    """A thread-safe runner of checks.

    Args:
        bound_s: the maximum time of `run`, in seconds.
        kept_s: how long an answer is cached, in seconds.
    """

    def __init__(
        self, probes: Mapping[str, Probe], *, bound_s: float = BOUND_S, kept_s: float = KEPT_S
    ) -> None:
        self._checks = {name: _Check(probe) for name, probe in probes.items()}
        self._bound_s, self._kept_s = bound_s, kept_s
        self._changed = threading.Condition()

    def run(self) -> list[CheckRow]:
        """Run due checks and return a row for each check, in the order of the probes."""
        until_s = time.monotonic() + self._bound_s
        with self._changed:
            for name, check in self._checks.items():
                if check.is_due(time.monotonic(), self._kept_s):
                    check.running_since_s = time.monotonic()
                    thread = threading.Thread(
                        target=self._run_check, args=(check,), name=f"check {name}", daemon=True
                    )
                    thread.start()
            self._changed.wait_for(self._is_quiet, timeout=max(0.0, until_s - time.monotonic()))
            now_s = time.monotonic()
            return [check.row(name, now_s) for name, check in self._checks.items()]

    def _is_quiet(self) -> bool:
        return all(check.running_since_s is None for check in self._checks.values())

    def _run_check(self, check: _Check) -> None:
        try:
            answer = check.probe()
        except Exception as error:
            log.exception("a readiness check raised an error")
            answer = Answer(cause=f"the check failed: {type(error).__name__}")
        with self._changed:
            check.end(answer, time.monotonic())
            self._changed.notify_all()
