"""Reconcile: what the queue lost is sent again, and what ended without a word is settled by
storage.

One rule for every kind of operation. Whoever is at it, a worker or a driver, can be seen to live:
by a lock of its run directory, by its process, or elsewhere by what it said last. While it lives it
is left alone. When it is gone, storage says how the operation ended (`outcomes`); what storage does
not show is done again by another worker, or undone where a driver died at it. All of that takes
seconds, a minute at most, whatever died, and depends on no report.

The order of trust: the decision object, then the timeline, then the process table, then reports.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.operations.demo import start_stream_again
from controlplane.operations.drivers import QUIET, driver_is_gone, take_ending, was_launched
from controlplane.operations.kinds.write import cancel_job
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send, send_cancel
from controlplane.operations.outcomes import confirmed, write_outcome
from controlplane.operations.permissions import is_destructive, needed
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_settling import reconcile_sink
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.access import may
from workers.errors import LakehouseError
from workers.reporting.at_work import is_at_work, was_taken

log = logging.getLogger(__name__)

LOST_AFTER = timedelta(seconds=20)
"""No worker took the job, or none said so: it is sent again. Tasks are safe to run twice."""
CANCEL_AGAIN_AFTER = timedelta(seconds=20)
SILENT_AFTER = timedelta(seconds=35)
"""A worker that cannot be seen from here says every ten seconds that it lives."""
ATTEMPTS_MAX = 10
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
    elif operation.kind == OperationKind.SINK.value:
        reconcile_sink(operation, now)
    elif not _is_gone(operation, now):
        _cancel_again_when_due(operation, now)
    elif operation.kind == OperationKind.WRITE.value:
        _reconcile_dead(operation, now)
    elif not _settle_by_storage(operation):
        _send_again(operation, now)


def _is_gone(operation: Operation, now: datetime) -> bool:
    """Whether nobody is at it any more."""
    if operation.kind in _OF_DRIVERS:
        return driver_is_gone(operation, now)
    silent_for = now - operation.changed_at
    folder = Path(run_dir(operation.pk))
    if was_taken(folder):
        return silent_for > QUIET and not is_at_work(folder)
    return silent_for > SILENT_AFTER


def _cancel_again_when_due(operation: Operation, now: datetime) -> None:
    """A write's driver is ended by a job of its own, which may get lost; a service looks itself.

    A driver that tells of its progress knows nothing of the cancellation: what counts is when the
    job was sent, not when the operation changed.
    """
    is_cancelling = operation.state == OperationState.CANCELLING.value
    is_write = operation.kind == OperationKind.WRITE.value
    sent_at = operation.sent_at or operation.requested_at
    if is_cancelling and is_write and now - sent_at > CANCEL_AGAIN_AFTER:
        amend(operation.pk, attempts=operation.attempts + 1)
        send_cancel(operation, cancel_job(operation, by="control plane", reason="cancelled"))


def _settle_by_storage(operation: Operation) -> bool:
    """True when storage proves that it is done. A replay finds that out when it is sent again."""
    if operation.kind not in (OperationKind.ROLLBACK.value, OperationKind.SERVICE.value):
        return False
    if operation.state == OperationState.CANCELLING.value:
        return False
    outcome = confirmed(operation, OperationState.SUCCEEDED)
    if outcome is None:
        return False
    if outcome.instant and outcome.instant != operation.instant:
        amend(operation.pk, instant=outcome.instant)
    message = outcome.message or "done, as storage shows; its worker ended without a word"
    return move(operation.pk, outcome.state, message=message) is not None


def _send_again_if_lost(operation: Operation, now: datetime) -> None:
    if operation.sent_at is not None and now - operation.sent_at < LOST_AFTER:
        return
    if now - operation.requested_at < QUIET:
        return
    # It was taken, and its first reports were lost. From now on it is watched.
    if operation.kind in _OF_DRIVERS and was_launched(operation):
        move(operation.pk, OperationState.RUNNING, message="its driver was launched")
    elif was_taken(Path(run_dir(operation.pk))):
        move(operation.pk, OperationState.RUNNING, message="a worker took it")
    elif operation.kind != OperationKind.ROLLBACK.value or not _settle_by_storage(operation):
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
    outcome = write_outcome(operation)
    if outcome.instant and outcome.instant != operation.instant:
        # Once it is undone nothing but its decision tells of it, which is found by its name.
        amend(operation.pk, instant=outcome.instant)
    moved = move(operation.pk, outcome.state, message=outcome.message)
    is_same = operation.state == outcome.state.value
    return outcome.state if moved is not None or is_same else None
