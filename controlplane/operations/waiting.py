"""What an open operation waits for, as far as the database knows: a worker, the table lock, its own
end. Three queries for any number of operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from controlplane.mirror.models import LockRecord
from controlplane.operations.kinds.kind import Cancelling, kinds
from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL, OPEN, OperationState

NO_WORKER_AFTER = timedelta(seconds=20)
"""A job that waits for so long although nothing else is at work: perhaps no worker runs."""
_S = OperationState


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Behind "waits for"."""

    words: str
    page: str = ""
    """Where that is shown: `locks` of its table, an `operation`, `running` operations, its
    `approval`; empty for nowhere.
    """
    operation: str = ""
    """Of the page `operation`: which."""
    table: str = ""
    """Of the page `operation`: the slug of its table."""


def waits_of(operations: Iterable[Operation], now: datetime) -> Mapping[UUID, Wait]:
    """By operation, of those that wait for something that can be named."""
    opened = [one for one in operations if _S(one.state) not in FINAL]
    if not opened:
        return {}
    at_work = _at_work() if any(one.state == _S.QUEUED for one in opened) else []
    locks = {
        lock.table_id: lock
        for lock in LockRecord.objects.filter(table__in={one.table_id for one in opened})
    }
    waits = {
        one.pk: _queued(one, at_work, now)
        if one.state == _S.QUEUED
        else _begun(one, locks.get(one.table_id))
        for one in opened
    }
    return {key: wait for key, wait in waits.items() if wait is not None}


def _at_work() -> list[Operation]:
    """What keeps a worker busy from start to end: all but what has a driver of its own."""
    driven = {name for name, kind in kinds().items() if kind.cancelling in _HAS_DRIVER}
    begun = OPEN - {_S.AWAITING, _S.QUEUED, _S.UNKNOWN}
    rows = Operation.objects.filter(state__in=sorted(begun)).exclude(kind__in=driven)
    return list(rows.select_related("table").order_by("started_at")[:50])


_HAS_DRIVER = (Cancelling.BY_JOB, Cancelling.STOPPED)


def _queued(operation: Operation, at_work: list[Operation], now: datetime) -> Wait:
    if operation.sent_at is None:
        return Wait(words="the queue, which has not taken its job yet")
    own = next((one for one in at_work if one.table_id == operation.table_id), None)
    if own is not None:
        return Wait(
            words=f"a worker, behind the {own.service or own.kind} of this table",
            page="operation",
            operation=str(own.pk),
            table=own.table.slug,
        )
    if at_work:
        count = len(at_work)
        words = "another operation" if count == 1 else f"{count} others"
        return Wait(words=f"a worker: {words} at work", page="running")
    waited = now - operation.requested_at
    if waited < NO_WORKER_AFTER:
        return Wait(words="a worker")
    return Wait(
        words=f"a worker: none has taken it for {int(waited.total_seconds())} s; does one run for "
        "the queue engine?"
    )


def _begun(operation: Operation, lock: LockRecord | None) -> Wait | None:
    match _S(operation.state):
        case _S.AWAITING:
            return Wait(words="a second person to approve", page="approval")
        case _S.CANCELLING:
            return Wait(words="its worker, which is being ended")
        case _S.STOPPING:
            return Wait(words="the end of its transaction")
        case _S.UNKNOWN:
            return Wait(words="storage, which does not show its end yet")
        case _:
            return _for_lock(operation, lock)


def _for_lock(operation: Operation, lock: LockRecord | None) -> Wait | None:
    """By the instant that a waiter of the lock names beside itself."""
    if lock is None or not operation.instant:
        return None
    if all(waiter.get("instant") != operation.instant for waiter in lock.waiters):
        return None
    holder = lock.writer or lock.owner
    return Wait(words=f"the table lock{f', held by {holder}' if holder else ''}", page="locks")
