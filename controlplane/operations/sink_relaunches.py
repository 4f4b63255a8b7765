"""A sink that died is launched again where that was wished for, after a pause that grows."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from controlplane.errors import ControlPlaneError
from controlplane.mirror.queries.sinks import OVER, sink_record
from controlplane.mirror.storage import storage_of
from controlplane.operations.kinds import sink
from controlplane.operations.kinds.sink import launch_again
from controlplane.operations.models import Operation
from controlplane.operations.sink_stops import newest_operation
from controlplane.operations.states import OperationState
from controlplane.tables.access import may
from workers.errors import LakehouseError
from workers.sink.stop_request import read_stop

log = logging.getLogger(__name__)

BACKOFF_S = 10
BACKOFF_S_MAX = 600
SETTLED_AFTER = timedelta(minutes=30)
"""A sink that ran for so long has earned its relaunches anew."""
RELAUNCHED_WITHIN = timedelta(hours=1)
TAKEN_OVER_AFTER = timedelta(seconds=5)
_DIED = (OperationState.LOST.value, OperationState.FAILED.value)


def relaunch_lost(now: datetime) -> list[Operation]:
    """Launch again what died and may be launched again, once its pause is over."""
    died = Operation.objects.filter(
        kind=sink.KIND.name,
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


def _relaunch_when_due(operation: Operation, now: datetime) -> Operation | None:
    due = relaunch_due(operation)
    newest = newest_operation(operation.table, operation.sink_id)
    if due is None or now < due or newest is None or newest.pk != operation.pk:
        return None
    by = operation.requested_by
    if by is None or not may(by, sink.KIND.permission(operation), operation.table):
        return None
    if _another_runs(operation) or _is_stop_wanted(operation):
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


def _is_stop_wanted(operation: Operation) -> bool:
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
