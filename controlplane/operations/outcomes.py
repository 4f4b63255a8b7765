"""How an operation ended, as storage shows it. What a worker says is a hint that it is worth
looking now: it decides nothing that storage can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db.models import Max

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.mirror.storage import engine_table, storage_of
from controlplane.operations.models import Operation
from controlplane.operations.own_beats import own_beats
from controlplane.operations.own_instants import OwnInstant, own_instant
from controlplane.operations.service_proof import service_proof
from controlplane.operations.states import OperationKind, OperationState
from controlplane.operations.verification import rollback_proof
from workers.clock import InstantTime
from workers.concurrency import heartbeat
from workers.services import registry
from workers.sink.replays import read_replays
from workers.sink.stop_request import read_stop
from workers.table import table as engine
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action

_S = OperationState
_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_UNDONE = frozenset({_S.CONFLICTED, _S.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class Outcome:
    state: OperationState
    message: str = ""
    """Empty where the worker's own words say it."""
    instant: InstantTime = ""
    """Its own on the timeline, where there is one."""


def confirmed(operation: Operation, claimed: OperationState) -> Outcome | None:
    """The end that storage shows where a worker claims `claimed`; None when storage does not show
    it, so that the operation stays open until `settling` finds out.

    Raises LakehouseError, ControlPlaneError, OSError when storage does not answer.
    """
    return _CONFIRM[OperationKind(operation.kind)](operation, claimed)


def _write(operation: Operation, claimed: OperationState) -> Outcome | None:
    instant = newest_instant(operation)
    table = engine_table(operation.table)
    own = own_instant(table, table.timeline(), operation, _WRITES)
    match claimed:
        case _S.SUCCEEDED if own is not None or (not instant and _writes_nothing(operation)):
            return Outcome(_S.SUCCEEDED, instant=own.instant.requested_at if own else "")
        case _S.SUCCEEDED:
            return None
        case _S.FAILED | _S.CANCELLED | _S.UNKNOWN if own is None or is_midway(operation):
            return Outcome(claimed)
        case _S.CANCELLED:
            return Outcome(claimed)
        case _ if claimed in _UNDONE and own is None:
            return _undone(table, instant, claimed)
        case _:
            assert own is not None, claimed
            at = own.instant.requested_at
            return Outcome(_S.SUCCEEDED, f"committed {at}", at)


def _undone(table: engine.Table, instant: InstantTime, claimed: OperationState) -> Outcome | None:
    """The decision says which; one that was archived with its instant is nobody's any more."""
    match decisions.read(table.storage, instant) if instant else None:
        case CommitDecision():
            return None
        case RollbackDecision(conflict=None):
            return Outcome(_S.ROLLED_BACK)
        case RollbackDecision():
            return Outcome(_S.CONFLICTED)
        case None:
            return Outcome(claimed)


def _rollback(operation: Operation, claimed: OperationState) -> Outcome | None:
    proof = rollback_proof(operation.table, operation.instant, operation.plan)
    if proof.is_proved:
        message = "" if claimed is _S.SUCCEEDED else f"rolled back {operation.instant}"
        return Outcome(_S.SUCCEEDED, message)
    return None if claimed is _S.SUCCEEDED else Outcome(claimed)


def _service(operation: Operation, claimed: OperationState) -> Outcome | None:
    proof = service_proof(operation)
    instant = proof.instant or ""
    if claimed is not _S.SUCCEEDED:
        is_done = proof.is_proved and proof.is_on_timeline is True
        done = Outcome(_S.SUCCEEDED, "done, as storage shows", instant)
        return done if is_done else Outcome(claimed)
    is_shown = proof.is_proved and (proof.is_on_timeline or proof.items_checked)
    return Outcome(claimed, "", instant) if is_shown or _has_nothing_to_do(operation) else None


def _has_nothing_to_do(operation: Operation) -> bool:
    """Somebody else was first, or the schedule came for nothing."""
    job = operation.parameters.get("job", {})
    service = registry.service(operation.service)
    plan = service.plan(engine_table(operation.table), dict(job.get("parameters", {})))
    return plan.is_done or (plan.is_empty and not plan.blockers)


def _replay(operation: Operation, claimed: OperationState) -> Outcome | None:
    """Letters are claimed before they are sent, and a claim without an end is not known to be."""
    replays = read_replays(storage_of(operation.table), operation.sink_id)
    is_open = any(one.token == str(operation.pk) and one.is_sent is not True for one in replays)
    return None if claimed is _S.SUCCEEDED and is_open else Outcome(claimed)


def _sink(operation: Operation, claimed: OperationState) -> Outcome | None:
    """A sink ends well only when somebody asked it to stop, which stands beside the table."""
    is_well = claimed in (_S.SUCCEEDED, _S.CANCELLED)
    if is_well and read_stop(storage_of(operation.table), operation.sink_id) is None:
        return None
    return Outcome(claimed)


def _cancel(_: Operation, claimed: OperationState) -> Outcome | None:
    return Outcome(claimed)


_CONFIRM: Mapping[OperationKind, Callable[[Operation, OperationState], Outcome | None]] = {
    OperationKind.WRITE: _write,
    OperationKind.ROLLBACK: _rollback,
    OperationKind.SERVICE: _service,
    OperationKind.REPLAY: _replay,
    OperationKind.SINK: _sink,
    OperationKind.CANCEL: _cancel,
}


def write_outcome(operation: Operation) -> Outcome:
    """Of a write whose driver is gone without a word."""
    storage = storage_of(operation.table)
    instant = newest_instant(operation)
    is_cancelling = operation.state == _S.CANCELLING.value
    undone = _S.CANCELLED if is_cancelling else _S.FAILED
    if not instant:
        return Outcome(undone, "its driver ended before it wrote anything")
    match decisions.read(storage, instant):
        case CommitDecision() if not _is_own(operation, instant):
            return Outcome(undone, f"its driver ended; {instant} is not its own")
        case CommitDecision() if is_cancelling:
            return Outcome(_S.CANCELLED, f"cancelled after {instant} was committed")
        case CommitDecision() if is_midway(operation):
            return Outcome(_S.FAILED, f"its driver ended after it had committed {instant}")
        case CommitDecision():
            return Outcome(_S.SUCCEEDED, f"committed {instant}")
        case RollbackDecision(conflict=None) if is_cancelling:
            return Outcome(_S.CANCELLED, f"cancelled, {instant} was rolled back")
        case RollbackDecision(conflict=None):
            return Outcome(_S.ROLLED_BACK, f"its driver ended; {instant} was rolled back")
        case RollbackDecision():
            return Outcome(_S.CONFLICTED, f"{instant} lost a conflict")
        case None if _is_anything_left(operation, instant):
            return Outcome(
                _S.UNKNOWN,
                "its driver ended; recovery acts when its heartbeat has run out",
                instant,
            )
        case None:
            return Outcome(undone, f"nothing is left of {instant}")


def newest_instant(operation: Operation) -> InstantTime:
    """Of a write: the newest one that it, the mirror or a heartbeat names. The mirror may not know
    yet what a driver began right before it died.
    """
    ref = str(operation.pk)
    named = [
        operation.instant,
        InstantRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("requested_at")
        )["newest"],
        HeartbeatRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("instant")
        )["newest"],
        *(beat.instant for beat in own_beats(operation)),
    ]
    return max(instant or "" for instant in named)


def is_midway(operation: Operation) -> bool:
    """A write of many rounds is done with the last one only; one that counts tasks has one."""
    is_counting = operation.progress_unit in ("rounds", "commits")
    return is_counting and max(1, operation.progress_done) < operation.progress_total


def _is_own(operation: Operation, instant: InstantTime) -> bool:
    """A report may name any instant. One whose publication is not finished has its heartbeat."""
    ref = str(operation.pk)
    records = InstantRecord.objects.filter(
        table=operation.table, requested_at=instant, operation_ref=ref
    )
    beats = HeartbeatRecord.objects.filter(
        table=operation.table, instant=instant, operation_ref=ref
    )
    if records.exists() or beats.exists():
        return True
    table = engine_table(operation.table)
    own: OwnInstant | None = own_instant(table, table.timeline(), operation, _WRITES)
    return own is not None


def _is_anything_left(operation: Operation, instant: InstantTime) -> bool:
    pending = InstantRecord.objects.filter(table=operation.table, requested_at=instant)
    beat = storage_of(operation.table).info(heartbeat.path_of(instant))
    return pending.exists() or beat is not None


def _writes_nothing(operation: Operation) -> bool:
    """A source that numbers its rounds may have been written to its end by another driver."""
    source = operation.parameters.get("job", {}).get("source", {})
    return str(source.get("kind", "")).startswith("demo_")
