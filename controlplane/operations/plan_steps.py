"""A rollback, or several in a row, as the steps of its plan: how far it is while it runs, and what
storage shows of each once it has ended.

While it runs, what the worker reported is believed: its files go in the order of the plan, and so
do its instants. Afterwards storage alone is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.operations.approvals.queries import ApprovalRow, approval_of
from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL, OperationState
from workers.clock import InstantTime
from workers.errors import LakehouseError

STEPS_SHOWN: Final = 200
_BEHIND: Final = 20
"""Of a long plan this many steps that are done stay in sight."""
SEVERAL: Final = "rollback_several"

StepState = Literal["waiting", "running", "done", "left", "unknown"]
"""`left`: it has ended, and storage shows that this was not done; `unknown`: storage is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    number: int
    """From 1, in the order of doing."""
    path: str
    """Of a file that goes; empty for an instant."""
    instant: InstantTime
    detail: str
    bytes: int
    state: StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSteps:
    steps: list[PlanStep]
    """Those around the one that is under way; once it has ended, the first."""
    total: int
    done: int
    """As far as is known: by the worker's word, or of those that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWay:
    steps: PlanSteps | None
    """None for an operation whose plan has none."""
    approval: ApprovalRow | None
    """None where it needs none."""


def plan_way(operation_id: UUID) -> PlanWay:
    """One query; of what has ended also one look at storage for each step that is shown."""
    wanted = Operation.objects.select_related("table", "requested_by", "approval")
    operation = wanted.get(pk=operation_id)
    return PlanWay(steps=_steps(operation), approval=approval_of(operation))


def _steps(operation: Operation) -> PlanSteps | None:
    steps = _planned(operation)
    if not steps:
        return None
    is_final = operation.state in {state.value for state in FINAL}
    if not is_final:
        return _under_way(operation, steps)
    looked_at = _as_storage_shows(operation, steps[:STEPS_SHOWN])
    done = sum(step.state == "done" for step in looked_at)
    return PlanSteps(steps=looked_at, total=len(steps), done=done)


def _planned(operation: Operation) -> list[PlanStep]:
    plan: Mapping[str, Any] = operation.plan
    if operation.kind == "rollback":
        return [
            _step(number, path=str(file["path"]), size=int(file.get("bytes") or 0))
            for number, file in enumerate(plan.get("files", []), start=1)
        ]
    if operation.service != SEVERAL:
        return []
    undone = [one for one in plan.get("items", []) if one.get("effect") == "undo"]
    return [
        _step(number, instant=str(one["what"]), detail=str(one.get("detail") or ""))
        for number, one in enumerate(undone, start=1)
    ]


def _step(
    number: int, *, path: str = "", instant: str = "", detail: str = "", size: int = 0
) -> PlanStep:
    return PlanStep(
        number=number, path=path, instant=instant, detail=detail, bytes=size, state="waiting"
    )


def _under_way(operation: Operation, steps: Sequence[PlanStep]) -> PlanSteps:
    done = min(operation.progress_done, len(steps))
    is_running = operation.state == OperationState.RUNNING.value
    first = max(0, min(done - _BEHIND, len(steps) - STEPS_SHOWN))
    shown = [
        replace(step, state=_state(at, done, is_running=is_running))
        for at, step in enumerate(steps[first : first + STEPS_SHOWN], start=first)
    ]
    return PlanSteps(steps=shown, total=len(steps), done=done)


def _state(at: int, done: int, *, is_running: bool) -> StepState:
    if at < done:
        return "done"
    return "running" if at == done and is_running else "waiting"


def _as_storage_shows(operation: Operation, steps: Sequence[PlanStep]) -> list[PlanStep]:
    try:
        table = engine_table(operation.table)
        if operation.kind == "rollback":
            infos = table.storage.at_once(table.storage.info, [step.path for step in steps])
            are_gone = [info is None for info in infos]
        else:
            timeline = table.timeline()
            are_gone = [timeline.find(step.instant) is None for step in steps]
    except (LakehouseError, ControlPlaneError, OSError):
        return [replace(step, state="unknown") for step in steps]
    return [
        replace(step, state="done" if is_gone else "left")
        for step, is_gone in zip(steps, are_gone, strict=True)
    ]
