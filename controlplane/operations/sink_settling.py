"""Reconcile for sinks: what is to stop does stop, and what died is told as lost.

A sink has no last instant that could settle it: its offsets are in the table, whoever goes on
begins there. So a lost one needs no verdict, only its Spark tasks ended and its instant undone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controlplane.mirror.storage import storage_of
from controlplane.operations.cancels import cancel_job
from controlplane.operations.drivers import (
    SILENT_AFTER,
    driver_is_gone,
    take_ending,
    was_launched,
)
from controlplane.operations.living import is_beating, may_still_act, sink_is_heard
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send_cancel
from controlplane.operations.outcomes import CLOCKS_APART_MS, Outcome
from controlplane.operations.sink_stops import put_stop, stop_deadline
from controlplane.operations.states import OperationState
from workers.sink.epoch import read_epoch
from workers.sink.runtime.launch import get_run_id, to_run_id
from workers.sink.sink_paths import SinkPaths
from workers.sink.stop_request import StopKind, read_stop

HARD_AFTER = timedelta(seconds=30)
"""What was asked to stop at once has so long to do it by itself; it ends its tasks after 20 s."""
CANCEL_AGAIN_AFTER = timedelta(seconds=30)


def confirm_sink(operation: Operation, claimed: OperationState) -> Outcome | None:
    """A sink ends well only when somebody asked it to stop, and is fenced only by a later launch;
    both stand beside the table.
    """
    if claimed is OperationState.UNKNOWN:
        return Outcome(claimed)
    if may_still_act(operation, sink_is_heard):
        return None
    match claimed:
        case OperationState.FENCED if _is_fenced(operation):
            return Outcome(claimed)
        case OperationState.SUCCEEDED | OperationState.CANCELLED:
            return Outcome(claimed) if _is_stop_for_this_launch(operation) else None
        case _:
            return Outcome(OperationState.FAILED)


def _is_stop_for_this_launch(operation: Operation) -> bool:
    """A request that is older than the wish for this launch was meant for an earlier one."""
    stop = read_stop(storage_of(operation.table), operation.sink_id)
    wanted_at_ms = operation.parameters["job"].get("wanted_at_ms") or 0
    return stop is not None and stop.at_ms >= wanted_at_ms


def _is_fenced(operation: Operation) -> bool:
    """Whether the epoch is another launch's that came later. What held it before is no fence."""
    epoch = read_epoch(storage_of(operation.table), operation.sink_id)
    if epoch is None or get_run_id(epoch.owner) == to_run_id(str(operation.pk)):
        return False
    return epoch.at_ms > operation.requested_at.timestamp() * 1000 - CLOCKS_APART_MS


def watch_sink(operation: Operation, now: datetime) -> None:
    """What is to stop does stop."""
    match OperationState(operation.state):
        case OperationState.STOPPING:
            _wait_for_stop(operation, now)
        case OperationState.CANCELLING:
            _cancel_when_due(operation, now)
        case _:
            pass


def sink_is_gone(operation: Operation, now: datetime) -> bool:
    if was_launched(operation) or not _has_shown_state(operation):
        return driver_is_gone(operation, now)
    # On another machine its process cannot be seen, but its state beside the table can.
    heard_at = max(operation.changed_at, _state_written_at(operation) or operation.changed_at)
    return now - heard_at > SILENT_AFTER and not is_beating(operation, now)


def _has_shown_state(operation: Operation) -> bool:
    """Not one that was launched before it. A sink tells it every two seconds, but for the time of a
    commit or a compaction, in which its heart beats.
    """
    shown_at, started_at = _state_written_at(operation), operation.started_at
    return shown_at is not None and started_at is not None and shown_at > started_at


def _state_written_at(operation: Operation) -> datetime | None:
    """By the storage's clock, as heartbeats are."""
    file = storage_of(operation.table).info(SinkPaths(operation.sink_id).state)
    return datetime.fromtimestamp(file.modified_ms / 1000, UTC) if file else None


def settle_sink(operation: Operation, now: datetime) -> bool:
    """It is told as lost, unless it left its last word or was asked to stop."""
    if take_ending(operation):
        return True
    if operation.state == OperationState.CANCELLING.value:
        if now - operation.changed_at > CANCEL_AGAIN_AFTER:
            move(operation.pk, OperationState.CANCELLED, message="stopped; its process is gone")
        elif not operation.attempts:
            _cancel(operation)
        return True
    moved = move(
        operation.pk,
        OperationState.LOST,
        message="its process is gone and left no word; what it had not committed is undone",
    )
    if moved is not None:
        # Spark's tasks may outlive it. This reports nothing: the operation has ended.
        job = cancel_job(moved, by="control plane", reason="its process died")
        send_cancel(moved, replace(job, report_url=None))
    return True


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
