"""Reconcile: what the queue lost is sent again, and what ended without a word is settled by
storage.

The order of trust: the decision object, then the timeline, then the process table, then reports. A
write whose driver is gone and whose last instant is undecided waits for recovery, which decides it
once its heartbeat has run out.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Max
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.operations.demo import start_stream_again
from controlplane.operations.drivers import QUIET, driver_is_gone, take_ending, was_launched
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send, send_cancel
from controlplane.operations.permissions import is_destructive, needed
from controlplane.operations.requests import cancel_job
from controlplane.operations.sink_settling import reconcile_sink
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.access import may
from workers.clock import InstantTime
from workers.concurrency import heartbeat
from workers.errors import LakehouseError
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision

log = logging.getLogger(__name__)

LOST_AFTER = timedelta(seconds=30)
"""No worker took the job, or none said so: it is sent again. Tasks are safe to run twice."""
CANCEL_AGAIN_AFTER = timedelta(seconds=30)
SERVICE_SILENT_AFTER = timedelta(seconds=60)
"""A service's worker says every ten seconds that it lives. The job sent again does what is left."""
ATTEMPTS_MAX = 10
_OF_WORKERS = (OperationKind.SERVICE.value, OperationKind.REPLAY.value)
_OF_DRIVERS = (OperationKind.WRITE.value, OperationKind.SINK.value)


def reconcile(*, now: datetime | None = None) -> int:
    """Bring every open operation one step nearer to the truth. How many were looked at."""
    at = now or timezone.now()
    open_operations = list(
        Operation.objects.filter(state__in=sorted(OPEN)).select_related("table", "requested_by")
    )
    for operation in open_operations:
        try:
            _reconcile_one(operation, at)
        except (LakehouseError, ControlPlaneError, OSError) as error:
            log.warning("operation waits for storage: operation=%s error=%s", operation.pk, error)
    return len(open_operations)


def _reconcile_one(operation: Operation, now: datetime) -> None:
    state = OperationState(operation.state)
    if state is OperationState.QUEUED:
        _send_again_if_lost(operation, now)
    elif operation.kind in _OF_WORKERS:
        if now - operation.changed_at > SERVICE_SILENT_AFTER:
            _send_again(operation, now)
    elif operation.kind == OperationKind.ROLLBACK.value:
        if now - operation.changed_at > LOST_AFTER:
            _settle_rollback(operation)
    elif operation.kind == OperationKind.SINK.value:
        reconcile_sink(operation, now)
    elif driver_is_gone(operation, now):
        _reconcile_dead(operation, now)
    elif state is OperationState.CANCELLING and now - operation.changed_at > CANCEL_AGAIN_AFTER:
        amend(operation.pk, attempts=operation.attempts + 1)
        send_cancel(operation, cancel_job(operation, by="control plane", reason="cancelled"))


def _send_again_if_lost(operation: Operation, now: datetime) -> None:
    if operation.sent_at is not None and now - operation.sent_at < LOST_AFTER:
        return
    if now - operation.requested_at < QUIET:
        return
    if operation.kind == OperationKind.ROLLBACK.value and _settle_rollback(operation):
        return
    if operation.kind in _OF_DRIVERS and was_launched(operation):
        # It was taken, and its first reports were lost. From now on it is watched.
        move(operation.pk, OperationState.RUNNING, message="its driver was launched")
        return
    _send_again(operation, now)


def _send_again(operation: Operation, now: datetime) -> None:
    if operation.attempts >= ATTEMPTS_MAX:
        move(operation.pk, OperationState.FAILED, message="no worker took it")
        return
    if not _may_still(operation):
        # The right may have been taken away since (threat T14).
        move(operation.pk, OperationState.FAILED, message="its requester may no longer do this")
        return
    log.info("sending again: operation=%s attempt=%s", operation.pk, operation.attempts + 1)
    operation.attempts += 1
    amend(operation.pk, attempts=operation.attempts, sent_at=now)
    send(operation)


def _may_still(operation: Operation) -> bool:
    if operation.requested_by is None:
        is_service = operation.kind == OperationKind.SERVICE.value
        return is_service and not is_destructive(operation.service)  # A schedule's.
    return may(operation.requested_by, needed(operation))


def _reconcile_dead(operation: Operation, now: datetime) -> None:
    if operation.state != OperationState.UNKNOWN.value and take_ending(operation):
        return
    ended = _settle_write(operation)
    if ended in (OperationState.FAILED, OperationState.ROLLED_BACK):
        start_stream_again(operation)
    elif ended is OperationState.UNKNOWN:
        _take_over(operation, now)


def _take_over(operation: Operation, now: datetime) -> None:
    """Interrupt the dead driver's Spark session, since its tasks outlive it, and undo what is left.

    It reports nothing: the decision object will say how it ended. Should it get nowhere, the next
    writer does the same once the heartbeat has run out.
    """
    if operation.state == OperationState.UNKNOWN.value:
        if now - operation.changed_at < CANCEL_AGAIN_AFTER:
            return
        amend(operation.pk, attempts=operation.attempts + 1)
    job = cancel_job(operation, by="control plane", reason="its driver died")
    send_cancel(operation, replace(job, report_url=None))


def _settle_write(operation: Operation) -> OperationState | None:
    """The driver is gone and nothing final was reported: its newest instant says how it ended.

    The state it is in now; None when it ended in another way meanwhile.
    """
    storage = storage_of(operation.table)
    instant = _newest_instant(operation)
    ended, message = _ending(operation, storage, instant)
    moved = move(operation.pk, ended, message=message)
    is_same = operation.state == ended.value
    return ended if moved is not None or is_same else None


def _ending(
    operation: Operation, storage: Storage, instant: InstantTime
) -> tuple[OperationState, str]:
    is_cancelling = operation.state == OperationState.CANCELLING.value
    undone = OperationState.CANCELLED if is_cancelling else OperationState.FAILED
    if not instant:
        return undone, "its driver ended before it wrote anything"
    match decisions.read(storage, instant):
        case CommitDecision() if is_cancelling:
            return OperationState.CANCELLED, f"cancelled after {instant} was committed"
        case CommitDecision():
            return _after_commit(operation, instant)
        case RollbackDecision(conflict=None) if is_cancelling:
            return OperationState.CANCELLED, f"cancelled, {instant} was rolled back"
        case RollbackDecision(conflict=None):
            return OperationState.ROLLED_BACK, f"its driver ended; {instant} was rolled back"
        case RollbackDecision():
            return OperationState.CONFLICTED, f"{instant} lost a conflict"
        case None if not _is_anything_left(operation, storage, instant):
            return undone, f"nothing is left of {instant}"
        case None:
            return (
                OperationState.UNKNOWN,
                "its driver ended; recovery acts when its heartbeat has run out",
            )


def _after_commit(operation: Operation, instant: InstantTime) -> tuple[OperationState, str]:
    """A write of many rounds is done with the last one only; one that counts tasks has one."""
    is_midway = (
        operation.progress_unit in ("rounds", "commits")
        and operation.progress_done < operation.progress_total
    )
    if is_midway:
        return OperationState.FAILED, f"its driver ended after it had committed {instant}"
    return OperationState.SUCCEEDED, f"committed {instant}"


def _is_anything_left(operation: Operation, storage: Storage, instant: InstantTime) -> bool:
    is_pending = InstantRecord.objects.filter(table=operation.table, requested_at=instant).exists()
    return is_pending or storage.info(heartbeat.path_of(instant)) is not None


def _settle_rollback(operation: Operation) -> bool:
    """True when storage proves that the target is undone and its rollback instant is completed."""
    storage = storage_of(operation.table)
    decision = decisions.read(storage, operation.instant)
    by = decisions.undone_by(storage, operation.instant) or (
        decision.by if isinstance(decision, RollbackDecision) else None
    )
    if by is None:
        return False
    timeline = InstantRecord.objects.filter(table=operation.table)
    is_done = timeline.filter(requested_at=by, state="completed").exists()
    if is_done and not timeline.filter(requested_at=operation.instant).exists():
        move(operation.pk, OperationState.SUCCEEDED, message=f"rolled back by {by}")
        return True
    return False


def _newest_instant(operation: Operation) -> InstantTime:
    ref = str(operation.pk)
    seen = [
        operation.instant,
        InstantRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("requested_at")
        )["newest"],
        HeartbeatRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("instant")
        )["newest"],
    ]
    return max(instant or "" for instant in seen)
