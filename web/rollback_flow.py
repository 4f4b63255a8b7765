"""The way of a rollback as its pages show it: its steps with their state, and the second approver
where the table wants one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from controlplane.operations.approvals.queries import ApprovalRow
from controlplane.operations.approvals.rules import is_approval_needed
from controlplane.operations.plan_steps import PlanStep, StepState, plan_way

if TYPE_CHECKING:
    from controlplane.tables.models import Table

_WORDS: dict[StepState, tuple[str, str]] = {
    "waiting": ("requested", "waiting"),
    "running": ("inflight", "running"),
    "done": ("completed", "done"),
    "left": ("failed", "not done"),
    "unknown": ("inflight", "checking"),
}
"""State of the step -> state of a proof, whose icon and colour it has, and its word."""


@dataclass(frozen=True, slots=True)
class Approver:
    """The second person, as a step of the way."""

    decision: str
    """needed: nothing was asked for yet; else what `ApprovalRow.decision` says."""
    name: str = ""
    """Who decided."""

    @property
    def is_done(self) -> bool:
        return self.decision == "approved"

    @property
    def is_awaited(self) -> bool:
        return self.decision == "pending"

    @property
    def is_over(self) -> bool:
        """Without approval: it will not run."""
        return self.decision not in ("needed", "pending", "approved")


@dataclass(frozen=True, slots=True)
class StepLine:
    step: PlanStep
    state: str
    word: str


def approver_wanted(table: Table, action: str) -> Approver | None:
    """Before anything was asked for. One query."""
    return Approver("needed") if is_approval_needed(table, action) else None


def flow(operation_id: UUID) -> dict[str, Any]:
    """What the page of an operation shows of it. One query, and storage of what has ended."""
    way = plan_way(operation_id)
    approval, steps = way.approval, way.steps
    context: dict[str, Any] = {"approver": _approver(approval), "approval": approval}
    if steps is None:
        return context
    lines = [StepLine(step, *_WORDS[step.state]) for step in steps.steps]
    return {**context, "plan_steps": steps, "step_lines": lines}


def _approver(approval: ApprovalRow | None) -> Approver | None:
    return None if approval is None else Approver(approval.decision, approval.decided_by)
