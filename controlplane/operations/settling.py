"""Reconcile: what the queue lost is sent again, and what ended without a word is settled by
storage.

One rule for every kind of operation. Whoever is at it, a worker or a driver, can be seen to live:
by a lock of its run directory, by its process, or elsewhere by what it said last. While it lives it
is left alone. When it is gone, storage says how the operation ended (its `Kind`); what storage does
not show is done again by another worker, or undone where a driver died at it. All of that takes
seconds, a minute at most, whatever died, and depends on no report.

The order of trust: the decision object, then the timeline, then the process table, then reports.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.operations.approvals.awaiting import do_expire_if_due
from controlplane.operations.drivers import was_launched
from controlplane.operations.engine_queue import waits_in_queue
from controlplane.operations.kinds.kind import Kind, kind_of
from controlplane.operations.leave import may_still, refuse
from controlplane.operations.living import QUIET
from controlplane.operations.log_collecting import do_collect_of_gone
from controlplane.operations.log_storing import do_note
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send
from controlplane.operations.queueing import IS_SHELL
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN, OperationState
from workers.errors import LakehouseError
from workers.reporting.run_lock import was_started

log = logging.getLogger(__name__)

LOST_AFTER = timedelta(seconds=20)
"""No worker took the job, or none said so: it is sent again, unless its message still waits behind
others. Tasks are safe to run twice.
"""
ATTEMPTS_MAX = 10


def do_reconcile(*, now: datetime | None = None) -> int:
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
    if operation.state == OperationState.AWAITING.value:
        do_expire_if_due(operation, now)
        return
    kind = kind_of(operation)
    if operation.state == OperationState.QUEUED.value:
        _send_again_if_lost(kind, operation, now)
        return
    if not kind.is_gone(operation, now):
        kind.watch(operation, now)
        return
    do_collect_of_gone(operation)
    if not kind.settle(operation, now):
        _send_again(operation, now)


def _send_again_if_lost(kind: Kind, operation: Operation, now: datetime) -> None:
    if operation.sent_at is not None and now - operation.sent_at < LOST_AFTER:
        return
    if now - operation.requested_at < QUIET:
        return
    # It was taken, and its first reports were lost. From now on it is watched.
    if was_launched(operation):
        move(operation.pk, OperationState.RUNNING, message="its driver was launched")
    elif was_started(Path(run_dir(operation.pk))):
        move(operation.pk, OperationState.RUNNING, message="a worker took it")
    elif not (kind.is_settled_unsent and kind.settle(operation, now)):
        _send_again(operation, now)


def _send_again(operation: Operation, now: datetime) -> None:
    if operation.parameters.get(IS_SHELL):
        move(operation.pk, OperationState.FAILED, message="the shell that was at it has ended")
        return
    if waits_in_queue(operation):
        return
    if operation.attempts >= ATTEMPTS_MAX:
        move(operation.pk, OperationState.FAILED, message="no worker took it")
        return
    if not may_still(operation):
        refuse(operation)
        return
    log.info(
        "sending an operation again: operation=%s attempt=%s", operation.pk, operation.attempts + 1
    )
    operation.attempts += 1
    amend(operation.pk, attempts=operation.attempts, sent_at=now)
    do_note(operation, f"sent again: attempt {operation.attempts + 1}", level=logging.WARNING)
    send(operation)
