"""Attempts at one write until one does not conflict
(`hoodie.write.num.retries.on.conflict.failures`).

Each attempt is a write of its own: it starts from the table as it is then, under a new instant,
with new files. What the former one wrote is rolled back before.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import read_heartbeat
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput
from workers.markers.fence import is_fenced
from workers.options.write_options import WriteOptions
from workers.ports import Ports
from workers.table.table import Table

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 5.0
_POLL_S = 0.1
_Other = TypeVar("_Other")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempts:
    """What was tried for one outcome so far, by all who try."""

    made: int = 0
    """Those that others rolled back included."""
    lost: list[Conflict] = field(default_factory=list)
    """In their order."""


def with_retries(
    table: Table,
    options: WriteOptions,
    attempt: Callable[[int], CommitOutcome | _Other],
    before: Attempts | None = None,
) -> CommitOutcome | _Other:
    """Call `attempt` with its number, from 1, until it does not conflict or none is left.

    `before` are attempts that the caller has made already; these are counted on and added to it.
    A batch that is refused only now does not go with what the rival made of the table: it lost to
    him. Raises as `attempt`.
    """
    attempts = before or Attempts()
    last = attempts.made + options.conflict_retries + 1
    lost: Conflicted | None = None
    while True:
        attempts.made += 1
        number = attempts.made
        try:
            outcome = attempt(number)
        except InvalidInput as refused:
            if lost is None:
                raise
            return _refused_after(lost, tuple(attempts.lost[:-1]), refused)
        if isinstance(outcome, Committed):
            return replace(outcome, attempts=number)
        if not isinstance(outcome, Conflicted):
            return outcome
        lost, earlier = outcome, tuple(attempts.lost)
        attempts.lost.append(outcome.conflict)
        if number >= last:
            return _lost_for_good(outcome, earlier)
        _log.info("write is tried again: attempt=%s conflict=%s", number, outcome.conflict)
        await_rival(table, outcome.conflict, wait_ms=options.lock_wait_ms)
        table.ports.clock.sleep(pause_s(table.ports, number))


def pause_s(ports: Ports, attempts: int) -> float:
    """After so many lost attempts: at random, so that two who met do not meet again, and longer
    each time.
    """
    share = zlib.crc32(ports.ids.token().encode()) / 2**32
    return share * min(PAUSE_MAX_S, PAUSE_FIRST_S * 2.0**attempts)


def _lost_for_good(outcome: Conflicted, lost: tuple[Conflict, ...]) -> Conflicted:
    if not lost:
        return outcome
    names = ", ".join(_named(one) for one in (*lost, outcome.conflict))
    message = f"{outcome.conflict.message}; {len(lost) + 1} attempts lost, to {names}"
    return Conflicted(outcome.instant, replace(outcome.conflict, message=message), earlier=lost)


def _refused_after(
    lost: Conflicted, earlier: tuple[Conflict, ...], refused: InvalidInput
) -> Conflicted:
    message = f"{lost.conflict.message}; tried again, it was refused: {refused}"
    return Conflicted(lost.instant, replace(lost.conflict, message=message), earlier=earlier)


def _named(conflict: Conflict) -> str:
    rival = conflict.rival or "unknown"
    return f"{rival} ({conflict.rival_writer})" if conflict.rival_writer else rival


def await_rival(table: Table, conflict: Conflict, *, wait_ms: int) -> None:
    """After an early conflict the rival may still write, and win again: let it end, or die.

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
