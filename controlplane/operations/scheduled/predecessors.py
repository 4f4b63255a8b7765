"""How that has ended which a schedule comes after, where it has not yet had its turn for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.states import FINAL, OperationState

ENDINGS_LOOKED_AT = 100
_NOTHING_CAME = {
    ScheduleRun.Outcome.EMPTY: "had nothing to do",
    ScheduleRun.Outcome.NOT_RUN: "was not run",
    ScheduleRun.Outcome.REFUSED: "was refused",
}
"""Of a predecessor that was skipped the run that it was skipped for will end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One run of a predecessor that is over."""

    turn: str
    """Its name as a turn of the schedule that comes after it."""
    at: datetime
    operation: Operation | None
    has_succeeded: bool
    words: str
    """What became of it; behind "what it comes after"."""


def endings_of(schedule: Schedule) -> list[Ending]:
    """The oldest first. Two queries at most."""
    if schedule.after_operation_id is not None:
        endings = _of_operation(schedule.after_operation_id)
    elif schedule.after_schedule_id is not None:
        endings = _of_schedule(schedule)
    else:
        return []
    turns = [ending.turn for ending in endings]
    taken = ScheduleRun.objects.filter(schedule=schedule, turn__in=turns)
    gone = set(taken.values_list("turn", flat=True))
    return [ending for ending in endings if ending.turn not in gone]


def _of_operation(operation_id: UUID) -> list[Ending]:
    operation = Operation.objects.filter(pk=operation_id, state__in=sorted(FINAL)).first()
    if operation is None:
        return []
    return [_ended(operation, f"operation {operation.pk}")]


def _of_schedule(schedule: Schedule) -> list[Ending]:
    runs = (
        ScheduleRun.objects.filter(
            schedule=schedule.after_schedule_id, due_at__gte=schedule.begins_at
        )
        .select_related("operation")
        .order_by("-pk")[:ENDINGS_LOOKED_AT]
    )
    endings: list[Ending] = []
    for run in reversed(runs):
        turn = f"run {run.pk}"
        if run.operation is None:
            if (words := _NOTHING_CAME.get(ScheduleRun.Outcome(run.outcome))) is not None:
                endings.append(
                    Ending(turn=turn, at=run.at, operation=None, has_succeeded=False, words=words)
                )
        elif OperationState(run.operation.state) in FINAL:
            endings.append(_ended(run.operation, turn))
    return endings


def _ended(operation: Operation, turn: str) -> Ending:
    return Ending(
        turn=turn,
        at=operation.finished_at or operation.changed_at,
        operation=operation,
        has_succeeded=operation.state == OperationState.SUCCEEDED,
        words=f"ended as {operation.state}",
    )
