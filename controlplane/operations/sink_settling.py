"""Reconcile for sinks: what is to stop does stop, what died is told as lost, and is launched again
where that was wished for.

A sink has no last instant that could settle it: its offsets are in the table, whoever goes on
begins there. So a lost one needs no verdict, only its Spark tasks ended and its instant undone.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controlplane.errors import ControlPlaneError
from controlplane.mirror.queries.sinks import OVER, sink_record
from controlplane.mirror.storage import storage_of
from controlplane.operations.drivers import (
    SILENT_AFTER,
    driver_is_gone,
    take_ending,
    was_launched,
)
from controlplane.operations.kinds.sink import (
    launch_again,
    newest_operation,
    put_stop,
    stop_deadline,
)
from controlplane.operations.kinds.write import cancel_job
from controlplane.operations.living import is_beating
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send_cancel
from controlplane.operations.permissions import needed
from controlplane.operations.states import OperationKind, OperationState
from controlplane.tables.access import may
from workers.errors import LakehouseError
from workers.sink.places import SinkPlaces
from workers.sink.stop_request import StopKind, read_stop

log = logging.getLogger(__name__)

HARD_AFTER = timedelta(seconds=30)
"""What was asked to stop at once has so long to do it by itself; it ends its tasks after 20 s."""
CANCEL_AGAIN_AFTER = timedelta(seconds=30)
BACKOFF_S = 10
BACKOFF_S_MAX = 600
SETTLED_AFTER = timedelta(minutes=30)
"""A sink that ran for so long has earned its relaunches anew."""
RELAUNCHED_WITHIN = timedelta(hours=1)
TAKEN_OVER_AFTER = timedelta(seconds=5)
_DIED = (OperationState.LOST.value, OperationState.FAILED.value)


def reconcile_sink(operation: Operation, now: datetime) -> None:
    """Of an open operation that some worker took."""
    if _is_gone(operation, now):
        _end(operation, now)
        return
    match OperationState(operation.state):
        case OperationState.STOPPING:
            _wait_for_stop(operation, now)
        case OperationState.CANCELLING:
            _cancel_when_due(operation, now)
        case _:
            pass


def relaunch_lost(now: datetime) -> list[Operation]:
    """Launch again what died and may be launched again, once its pause is over."""
    died = Operation.objects.filter(
        kind=OperationKind.SINK.value,
        state__in=_DIED,
        finished_at__gt=now - RELAUNCHED_WITHIN,
        parameters__relaunches_max__gt=0,
    ).select_related("table", "requested_by")
    return [again for one in died if (again := _relaunch_when_due(one, now)) is not None]


def relaunch_due(operation: Operation) -> datetime | None:
    """When a sink that died is launched again by itself; None when it is not."""
    done, most = _relaunches(operation), int(operation.parameters.get("relaunches_max", 0))
    is_wanted = not operation.parameters.get("stop") and operation.requested_by is not None
    if operation.state not in _DIED or not is_wanted or done >= most or not operation.finished_at:
        return None
    return operation.finished_at + timedelta(seconds=min(BACKOFF_S * 2**done, BACKOFF_S_MAX))


def _is_gone(operation: Operation, now: datetime) -> bool:
    if was_launched(operation) or not _told_its_state(operation):
        return driver_is_gone(operation, now)
    # On another machine its process cannot be seen, but its state beside the table can.
    heard_at = max(operation.changed_at, _state_told_at(operation) or operation.changed_at)
    return now - heard_at > SILENT_AFTER and not is_beating(operation, now)


def _told_its_state(operation: Operation) -> bool:
    """Not one that was launched before it. A sink tells it every two seconds, but for the time of a
    commit or a compaction, in which its heart beats.
    """
    told_at, started_at = _state_told_at(operation), operation.started_at
    return told_at is not None and started_at is not None and told_at > started_at


def _state_told_at(operation: Operation) -> datetime | None:
    """By the storage's clock, as heartbeats are."""
    file = storage_of(operation.table).info(SinkPlaces(operation.sink_id).state)
    return datetime.fromtimestamp(file.modified_ms / 1000, UTC) if file else None


def _end(operation: Operation, now: datetime) -> None:
    if take_ending(operation):
        return
    if operation.state == OperationState.CANCELLING.value:
        if now - operation.changed_at > CANCEL_AGAIN_AFTER:
            move(operation.pk, OperationState.CANCELLED, message="stopped; its process is gone")
        elif not operation.attempts:
            _cancel(operation)
        return
    moved = move(
        operation.pk,
        OperationState.LOST,
        message="its process is gone and left no word; what it had not committed is undone",
    )
    if moved is not None:
        # Spark's tasks may outlive it. This reports nothing: the operation has ended.
        job = cancel_job(moved, by="control plane", reason="its process died")
        send_cancel(moved, replace(job, report_url=None))


def _wait_for_stop(operation: Operation, now: datetime) -> None:
    deadline = stop_deadline(operation)
    stop_request = operation.parameters.get("stop", {})
    by = str(stop_request.get("by", "control plane"))
    if deadline is not None and now < deadline:
        # A sink that was just starting may have taken the request for an old one.
        if read_stop(storage_of(operation.table), operation.sink_id) is None:
            put_stop(operation.table, operation.sink_id, StopKind.GRACEFUL, by=by, at=now)
        return
    put_stop(operation.table, operation.sink_id, StopKind.HARD, by=by, at=now)
    amend(operation.pk, attempts=0)
    move(
        operation.pk,
        OperationState.CANCELLING,
        message="did not stop in time, so it is stopped without its transaction",
    )


def _cancel_when_due(operation: Operation, now: datetime) -> None:
    wait = CANCEL_AGAIN_AFTER if operation.attempts else HARD_AFTER
    if now - operation.changed_at > wait:
        _cancel(operation)


def _cancel(operation: Operation) -> None:
    amend(operation.pk, attempts=operation.attempts + 1)
    send_cancel(operation, cancel_job(operation, by="control plane", reason="stopped"))


def _relaunch_when_due(operation: Operation, now: datetime) -> Operation | None:
    due = relaunch_due(operation)
    newest = newest_operation(operation.table, operation.sink_id)
    if due is None or now < due or newest is None or newest.pk != operation.pk:
        return None
    by = operation.requested_by
    if by is None or not may(by, needed(operation)) or _another_runs(operation):
        return None
    if _was_asked_to_stop(operation):
        return None
    done = _relaunches(operation) + 1
    most = operation.parameters["relaunches_max"]
    reason = f"in the place of {operation.pk}, relaunch {done} of {most}"
    try:
        return launch_again(operation, by=by, reason=reason, relaunches=done)
    except ControlPlaneError as error:
        log.warning("not relaunched: sink=%s error=%s", operation.sink_id, error)
        return None


def _another_runs(operation: Operation) -> bool:
    """Somebody has taken over since it ended: launching it again would only fence that one."""
    seen = sink_record(operation.table, operation.sink_id)
    ended = operation.finished_at
    if seen is None or seen.updated_at is None or ended is None or seen.state in OVER:
        return False
    return seen.updated_at - ended > TAKEN_OVER_AFTER


def _was_asked_to_stop(operation: Operation) -> bool:
    """By a file beside the table, of which no operation knows; the next launch would clear it."""
    try:
        stop = read_stop(storage_of(operation.table), operation.sink_id)
    except LakehouseError as error:
        log.warning("not relaunched: sink=%s error=%s", operation.sink_id, error)
        return True
    return stop is not None and stop.at_ms >= operation.requested_at.timestamp() * 1000


def _relaunches(operation: Operation) -> int:
    """How often in a row; one that ran for long begins to count anew."""
    began, ended = operation.started_at, operation.finished_at
    if began and ended and ended - began > SETTLED_AFTER:
        return 0
    return int(operation.parameters.get("relaunches", 0))
