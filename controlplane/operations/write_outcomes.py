"""How a write ended, as storage shows it: by its newest instant and what was decided about it."""

from __future__ import annotations

from django.db.models import Max

from controlplane.mirror.models import HeartbeatRecord, InstantRecord, UndoneRecord
from controlplane.mirror.storage import engine_table, storage_of
from controlplane.operations.living import may_still_act
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import CLOCKS_APART_MS, Outcome, was_cancelled
from controlplane.operations.own_beats import own_beats
from controlplane.operations.own_instants import OwnInstant, own_instant
from controlplane.operations.rounds import has_all_rounds, lacks_rounds
from controlplane.operations.states import OperationState
from workers.clock import InstantTime, format_instant
from workers.concurrency import heartbeat
from workers.table import table as engine
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

_S = OperationState
_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_UNDONE = frozenset({_S.CONFLICTED, _S.ROLLED_BACK})


def confirm_write(operation: Operation, claimed: OperationState) -> Outcome | None:
    """The end that storage shows where its driver claims `claimed`; None while storage shows none.

    Raises LakehouseError, ControlPlaneError, OSError when storage does not answer.
    """
    table = engine_table(operation.table)
    timeline = table.timeline()
    own = own_instant(table, timeline, operation, _WRITES)
    if own is None:
        return _nothing_committed(operation, table, timeline, claimed)
    at = own.instant.requested_at
    is_midway = lacks_rounds(operation, table, timeline)
    match claimed:
        case _S.SUCCEEDED if is_midway:
            return None
        case _S.SUCCEEDED:
            return Outcome(claimed, instant=at)
        case _S.CANCELLED if was_cancelled(operation):
            return Outcome(claimed, f"cancelled after {at} was committed", at)
        case _ if claimed in _UNDONE and is_midway:
            return _undone(operation, table, claimed)
        case _S.UNKNOWN if is_midway:
            return Outcome(claimed)
        case _ if is_midway:
            return Outcome(_S.FAILED, instant=at)
        case _:
            return Outcome(_S.SUCCEEDED, f"committed {at}", at)


def _nothing_committed(
    operation: Operation, table: engine.Table, timeline: Timeline, claimed: OperationState
) -> Outcome | None:
    """An end without an effect is one only once nobody can bring the effect any more."""
    match claimed:
        case _S.SUCCEEDED:
            is_there = has_all_rounds(operation, table, timeline)
            return Outcome(claimed) if is_there else None
        case _S.UNKNOWN:
            return Outcome(claimed)
        case _ if claimed in _UNDONE and (undone := _undone(operation, table, claimed)):
            return undone
        case _ if may_still_act(operation):
            return None
        case _S.CANCELLED if was_cancelled(operation):
            return Outcome(claimed)
        case _:
            return Outcome(_S.FAILED)


def _undone(operation: Operation, table: engine.Table, claimed: OperationState) -> Outcome | None:
    """The decision about what it had begun says which. One that was archived with its instant says
    nothing any more, and what the mirror saw of it stands for it; None where neither tells.
    """
    instant = newest_instant(operation)
    match decisions.read(table.storage, instant) if instant else None:
        case RollbackDecision(conflict=None):
            return Outcome(_S.ROLLED_BACK)
        case RollbackDecision():
            return Outcome(_S.CONFLICTED)
        case _:
            seen = UndoneRecord.objects.filter(
                table=operation.table, requested_at=instant, operation_ref=str(operation.pk)
            )
            return Outcome(claimed) if instant and seen.exists() else None


def write_outcome(operation: Operation) -> Outcome:
    """What became of a write whose driver is gone without a word."""
    table = engine_table(operation.table)
    timeline = table.timeline()
    instant = newest_instant(operation)
    is_cancelling = operation.state == _S.CANCELLING.value
    undone = _S.CANCELLED if is_cancelling else _S.FAILED
    decision = decisions.read(table.storage, instant) if instant else None
    if isinstance(decision, CommitDecision) and _is_own(operation, table, timeline, instant):
        return _committed(operation, table, timeline, instant)
    own = own_instant(table, timeline, operation, _WRITES)
    if own is not None and own.instant.requested_at >= _newest_seen(operation):
        # Whatever instant a report has named.
        return _committed(operation, table, timeline, own.instant.requested_at)
    if not instant:
        return Outcome(undone, "its driver ended before it wrote anything")
    match decision:
        case CommitDecision():
            return Outcome(undone, f"its driver ended; {instant} is not its own")
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


def _committed(
    operation: Operation, table: engine.Table, timeline: Timeline, instant: InstantTime
) -> Outcome:
    if operation.state == _S.CANCELLING.value:
        return Outcome(_S.CANCELLED, f"cancelled after {instant} was committed")
    if lacks_rounds(operation, table, timeline):
        return Outcome(_S.FAILED, f"its driver ended after it had committed {instant}")
    return Outcome(_S.SUCCEEDED, f"committed {instant}", instant)


def newest_instant(operation: Operation) -> InstantTime:
    """The newest instant of a write that it, the mirror or a heartbeat names. The mirror may not
    know yet what a driver began right before it died.
    """
    named = operation.instant
    return max(_newest_seen(operation), "" if is_foreign(operation, named) else named)


def _newest_seen(operation: Operation) -> InstantTime:
    """Under its own id; empty when none is."""
    ref = str(operation.pk)
    seen = [
        InstantRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("requested_at")
        )["newest"],
        UndoneRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("requested_at")
        )["newest"],
        HeartbeatRecord.objects.filter(table=operation.table, operation_ref=ref).aggregate(
            newest=Max("instant")
        )["newest"],
        *(beat.instant for beat in own_beats(operation)),
    ]
    return max(instant or "" for instant in seen)


def is_foreign(operation: Operation, instant: InstantTime) -> bool:
    """Whether the mirror knows an instant that a report named as that of another operation, or
    nobody could have begun it for this one.
    """
    requested_ms = operation.requested_at.timestamp() * 1000
    if not instant or instant < format_instant(int(requested_ms) - CLOCKS_APART_MS):
        return True
    others = {"table": operation.table}
    ref = str(operation.pk)
    return any(
        found.exclude(operation_ref__in=("", ref)).exists()
        for found in (
            InstantRecord.objects.filter(**others, requested_at=instant),
            UndoneRecord.objects.filter(**others, requested_at=instant),
            HeartbeatRecord.objects.filter(**others, instant=instant),
        )
    )


def _is_own(
    operation: Operation, table: engine.Table, timeline: Timeline, instant: InstantTime
) -> bool:
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
    own: OwnInstant | None = own_instant(table, timeline, operation, _WRITES)
    return own is not None and own.instant.requested_at == instant


def _is_anything_left(operation: Operation, instant: InstantTime) -> bool:
    pending = InstantRecord.objects.filter(table=operation.table, requested_at=instant)
    beat = storage_of(operation.table).info(heartbeat.heartbeat_path(instant))
    return pending.exists() or beat is not None
