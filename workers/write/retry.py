"""Attempts at one write until one does not conflict
(`hoodie.write.num.retries.on.conflict.failures`). Nothing else tries a write again.

Each attempt is a write of its own: it starts from the table as it is then, under a new instant,
with new files. What the former one wrote is rolled back before.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import read_heartbeat
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput, LakehouseError
from workers.markers.fence import is_fenced
from workers.options.write_options import WriteOptions
from workers.ports import Ports
from workers.table.table import Table

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 5.0
_POLL_S = 0.1
_Other = TypeVar("_Other")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The outcomes and errors besides conflicts after which a write is retried, and how often."""

    attempts_max: int | None = None
    """None: the limit of `hoodie.write.num.retries.on.conflict.failures`."""
    outcomes: tuple[type[object], ...] = ()
    """Outcomes after which another attempt may follow."""
    errors: tuple[type[LakehouseError], ...] = ()
    """Errors with which everything was rolled back, and after which another attempt may follow."""


def with_retries(
    table: Table,
    options: WriteOptions,
    attempt: Callable[[int], CommitOutcome | _Other],
    again: RetryPolicy | None = None,
) -> CommitOutcome | _Other:
    """Call `attempt` with its number, from 1, until its outcome is final or no attempt is left.

    A batch that is rejected only now does not match the table after the rival's commit: that counts
    as a conflict with the rival. Raises as `attempt`.
    """
    again = again or RetryPolicy()
    last = again.attempts_max or options.conflict_retries + 1
    lost: list[Conflicted] = []
    number = 0
    while True:
        number += 1
        try:
            outcome = attempt(number)
        except InvalidInput as refused:
            if not lost:
                raise
            return _build_rejected_conflict(lost, refused)
        except again.errors as error:
            if number >= last:
                raise
            _log.warning("write is tried again: attempt=%s error=%s", number, error)
        else:
            if isinstance(outcome, Committed):
                return replace(outcome, attempts=number)
            if isinstance(outcome, Conflicted):
                lost.append(outcome)
                if number >= last:
                    return _build_last_conflict(lost)
            elif number >= last or not isinstance(outcome, again.outcomes):
                return outcome
            _log.info("write is tried again: attempt=%s outcome=%s", number, outcome)
            if isinstance(outcome, Conflicted):
                await_rival(table, outcome.conflict, wait_ms=options.lock_wait_ms)
        table.ports.clock.sleep(pause_s(table.ports, number))


def pause_s(ports: Ports, attempts: int) -> float:
    """Return the pause after this many lost attempts, in seconds. It is random, so that two rivals
    do not meet again, and longer each time.
    """
    share = zlib.crc32(ports.ids.token().encode()) / 2**32
    return share * min(PAUSE_MAX_S, PAUSE_FIRST_S * 2.0**attempts)


def _build_last_conflict(lost: Sequence[Conflicted]) -> Conflicted:
    *earlier, last = lost
    if not earlier:
        return last
    names = ", ".join(_format_rival(outcome.conflict) for outcome in lost)
    message = f"{last.conflict.message}; {len(lost)} attempts lost, to {names}"
    return _with_earlier(earlier, last, message)


def _build_rejected_conflict(lost: Sequence[Conflicted], refused: InvalidInput) -> Conflicted:
    *earlier, last = lost
    message = f"{last.conflict.message}; tried again, it was refused: {refused}"
    return _with_earlier(earlier, last, message)


def _with_earlier(earlier: Sequence[Conflicted], last: Conflicted, message: str) -> Conflicted:
    conflicts = tuple(outcome.conflict for outcome in earlier)
    return Conflicted(last.instant, replace(last.conflict, message=message), earlier=conflicts)


def _format_rival(conflict: Conflict) -> str:
    rival = conflict.rival or "unknown"
    return f"{rival} ({conflict.rival_writer})" if conflict.rival_writer else rival


def await_rival(table: Table, conflict: Conflict, *, wait_ms: int) -> None:
    """Wait until the rival of an early conflict ends or dies: it may still write, and win again.

    Waits at most as long as for the table lock (`hoodie.write.lock.wait_time_ms`).
    """
    if conflict.detected != "early" or conflict.rival is None:
        return
    clock = table.ports.clock
    deadline_s = clock.monotonic_s() + wait_ms / 1000
    while _is_running(table, conflict.rival) and clock.monotonic_s() < deadline_s:
        clock.sleep(_POLL_S)


def _is_running(table: Table, instant: InstantTime) -> bool:
    if is_fenced(table.storage, instant):
        return False
    beat = read_heartbeat(table.storage, instant)
    return beat is not None and not beat.is_expired(table.ports.clock.now_ms())
