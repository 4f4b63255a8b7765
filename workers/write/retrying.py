"""Attempts at one write until one does not conflict
(`hoodie.write.num.retries.on.conflict.failures`).
"""

from __future__ import annotations

from collections.abc import Callable

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import read_heartbeat
from workers.concurrency.outcome import CommitOutcome, Conflicted
from workers.config import WriteOptions
from workers.markers.fence import is_fenced
from workers.table.table import Table

_POLL_S = 0.1


def with_retries(
    table: Table, options: WriteOptions, attempt: Callable[[], CommitOutcome]
) -> CommitOutcome:
    """Each attempt on the table as it is then. Raises as `attempt`."""
    outcome = attempt()
    for _ in range(options.conflict_retries):
        if not isinstance(outcome, Conflicted):
            break
        await_rival(table, outcome.conflict, wait_ms=options.lock_wait_ms)
        outcome = attempt()
    return outcome


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
