"""The table lock: who has it, who waits, and how long commits waited for it. Reads the mirror."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from controlplane.mirror.models import InstantRecord, LockRecord, SyncMark
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime, parse_instant
from workers.options.lock_options import LockProvider

LockState = Literal["held", "free", "overdue", "unknown"]
"""Overdue: its lease ran out and nobody took it over."""
HISTORY_MAX = 300
LOCK_KEY = "sluice.lock"
VALIDATED_PHASE = "validated"
"""No conflict was seen, under the lock: as the mirror names that phase of a commit."""
COMMITS_LOOKED_AT = 1_000
HOLD_MS_MAX = 600_000
STAMP_MS = 20
"""So much older than it is may a file look whose stamps are as coarse as a kernel's ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWaiter:
    writer: str
    instant: InstantTime
    host: str
    pid: int
    since_ms: int
    until_ms: int
    """When it gives up."""
    holder: str
    """Whom it found holding the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHold:
    """Somebody whom a look at storage found holding the lock."""

    writer: str
    owner: str
    instant: InstantTime
    since_ms: int | None
    seen_ms: int
    """When it was last seen with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    provider: str
    place: str
    state: LockState
    reason: str
    """Why the holder is not known; empty when it is."""
    owner: str
    writer: str
    instant: InstantTime
    since: datetime | None
    until: datetime | None
    expires_in_s: float | None
    waiters: list[LockWaiter]
    """Longest first."""
    holders: list[LockHold]
    """Newest first; a hold between two looks is not among them."""
    sampled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """One commit, and how long it waited for the lock that it was decided under."""

    instant: InstantTime
    writer: str
    provider: str
    epoch: int | None
    waited_ms: int
    decided_ms: int
    had_it_ms: int
    """The earliest moment of which it is known that it held the lock: it was validated, or else
    decided.
    """
    held_ms: int | None
    """From then until its completed file was there, so at least; None where the commit or its file
    does not say.
    """


def lock_status(table: Table, now: datetime) -> LockStatus | None:
    """None before the mirror has looked. One query."""
    lock = LockRecord.objects.filter(table=table).select_related("table__sync_mark").first()
    if lock is None:
        return None
    left_s = (lock.until - now).total_seconds() if lock.until else None
    return LockStatus(
        provider=lock.provider,
        place=lock.place,
        state=_state(lock, left_s),
        reason=_reason(lock),
        owner=lock.owner,
        writer=lock.writer,
        instant=lock.instant,
        since=lock.since,
        until=lock.until,
        expires_in_s=left_s,
        waiters=[_waiter(one) for one in lock.waiters],
        holders=[_hold(one) for one in lock.holders],
        sampled_at=_sampled_at(lock),
    )


def lock_waits(table: Table, limit: int = HISTORY_MAX) -> list[LockWait]:
    """How long the newest commits waited for the lock, newest first. One query, which reads a
    bounded number of them: those that say nothing are passed over here, because a filter would read
    a whole history for them.
    """
    commits = (
        InstantRecord.objects.filter(table=table, state="completed", action__in=DATA_ACTIONS)
        .order_by("-completed_at")
        .values_list(
            *("requested_at", "writer_name", "completed_at"),
            *("metadata__extra", "metadata__phases", "file_times"),
        )
    )
    waits = [
        _wait(instant, writer, completed_at or instant, extra, _hold_times(phases, file_times))
        for instant, writer, completed_at, extra, phases, file_times in commits[:COMMITS_LOOKED_AT]
        if extra and LOCK_KEY in extra
    ]
    known = [wait for wait in waits if wait is not None]
    return known[: max(1, min(limit, HISTORY_MAX))]


def _sampled_at(lock: LockRecord) -> datetime:
    """The newest look: one that finds nothing new leaves the record as it is. A cheap look at the
    table's directory is one at a lock that lies there.
    """
    mark: SyncMark | None = getattr(lock.table, "sync_mark", None)
    looks = [lock.sampled_at, mark.synced_at if mark else None]
    if lock.provider == LockProvider.STORAGE.value:
        looks.append(lock.table.synced_at)
    return max(at for at in looks if at is not None)


def _state(lock: LockRecord, left_s: float | None) -> LockState:
    if lock.problem:
        return "unknown"
    if not lock.is_held:
        return "free"
    return "overdue" if left_s is not None and left_s < 0 else "held"


def _reason(lock: LockRecord) -> str:
    if lock.problem:
        return lock.problem
    if lock.is_held and not lock.writer:
        if lock.provider == "filesystem" and not lock.epoch:
            return "Apache Hudi's lock file does not say who made it"
        return "the holder gave itself no name" if lock.epoch else "another engine's owner text"
    return ""


def _waiter(waiter: Mapping[str, Any]) -> LockWaiter:
    return LockWaiter(
        writer=str(waiter.get("writer") or ""),
        instant=str(waiter.get("instant") or ""),
        host=str(waiter.get("host") or ""),
        pid=int(waiter.get("pid") or 0),
        since_ms=int(waiter.get("since_ms") or 0),
        until_ms=int(waiter.get("until_ms") or 0),
        holder=str(waiter.get("holder") or ""),
    )


def _hold(hold: Mapping[str, Any]) -> LockHold:
    since = hold.get("since_ms")
    return LockHold(
        writer=str(hold.get("writer") or ""),
        owner=str(hold.get("owner") or ""),
        instant=str(hold.get("instant") or ""),
        since_ms=since if isinstance(since, int) else None,
        seen_ms=int(hold.get("seen_ms") or 0),
    )


def _hold_times(
    phases: Mapping[str, Any] | None, file_times: Mapping[str, Any] | None
) -> tuple[int | None, int | None]:
    """(validated, completed) by the clocks of writer and storage. A file that is much older or
    younger than its commit was copied here, and says nothing of when.
    """
    validated, completed = (phases or {}).get(VALIDATED_PHASE), (file_times or {}).get("completed")
    if not isinstance(validated, int):
        return None, None
    if not isinstance(completed, int) or not -STAMP_MS <= completed - validated <= HOLD_MS_MAX:
        return validated, None
    return validated, max(completed, validated)


def _wait(
    instant: InstantTime,
    writer: str,
    completed_at: InstantTime,
    extra: Mapping[str, Any],
    hold: tuple[int | None, int | None],
) -> LockWait | None:
    """None where the commit's words cannot be read."""
    try:
        lock_facts = json.loads(str(extra.get(LOCK_KEY)))
        waited_ms = max(0, int(lock_facts["waited_ms"]))
        epoch = lock_facts.get("epoch")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    validated_ms, completed_ms = hold
    decided_ms = parse_instant(completed_at)
    had_it_ms = decided_ms if validated_ms is None else validated_ms
    return LockWait(
        instant=instant,
        writer=writer,
        provider=str(lock_facts.get("provider") or "")[:32],
        epoch=epoch if isinstance(epoch, int) else None,
        waited_ms=min(waited_ms, 10**10),
        decided_ms=decided_ms,
        had_it_ms=had_it_ms,
        held_ms=None if completed_ms is None else completed_ms - had_it_ms,
    )
