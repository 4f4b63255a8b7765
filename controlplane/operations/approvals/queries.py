"""What awaits approval, and what was said of what did, as plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from controlplane.errors import ControlPlaneError
from controlplane.operations.approvals.deciding import Decider, awaited, may_decide, plan_now
from controlplane.operations.approvals.rules import approval_actions
from controlplane.operations.models import Approval, Operation
from controlplane.operations.queries import requested_by
from controlplane.operations.states import OperationState
from controlplane.tables.access import visible_tables

ROWS_MAX: Final = 200
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    operation: UUID
    """What awaits it; the approval itself has no other id."""
    table_slug: str
    table_name: str
    action: str
    title: str
    requested_by: str
    requested_at: datetime
    reason: str
    """Of whoever asked for it."""
    plan_hash: str
    expires_at: datetime
    decision: str
    """pending, approved, declined, expired, withdrawn, or void where the table changed"""
    decided_by: str
    decided_at: datetime | None
    decision_reason: str
    state: str
    """Of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDetail:
    row: ApprovalRow
    may_decide: bool
    """Whether whoever looks at it may approve of it or decline it."""
    plan: Mapping[str, Any]
    """As it is now; empty for whoever may not decide, for what is decided, and with a problem."""
    sample: list[Mapping[str, Any]]
    """Some of the rows that go now, by column, as far as the caller may read them; masked columns
    have the mark. Empty where the plan is, and for what takes no rows.
    """
    has_changed: bool
    """It is another plan than the one that was asked for, which nobody can approve of any more."""
    problem: str
    """Why there is no plan now; empty for none."""


def approval_rows(by: Decider, *, is_pending: bool) -> list[ApprovalRow]:
    """Approvals of the tables that `by` sees: what is pending, the oldest first, or what was
    decided, the newest first. Two queries, and at most `ROWS_MAX` rows.
    """
    approvals = _seen(by)
    is_awaiting = {"operation__state": OperationState.AWAITING.value}
    if is_pending:
        approvals = approvals.filter(**is_awaiting).order_by("operation__requested_at")
    else:
        approvals = approvals.exclude(**is_awaiting).order_by("-operation__requested_at")
    return [_row(approval) for approval in approvals[:ROWS_MAX]]


def approval_detail(operation_id: UUID, by: Decider) -> ApprovalDetail:
    """With the plan as it is now, read from storage for whoever may decide.

    Raises Http404 for one that there is not, and for one of a table that `by` may not see.
    """
    approval = awaited(operation_id, by)
    row = _row(approval)
    is_decider = may_decide(approval.operation, by)
    plan: Mapping[str, Any] = {}
    has_changed, problem = False, ""
    sample: list[Mapping[str, Any]] = []
    if is_decider and row.decision == Approval.Decision.PENDING.value:
        try:
            planned: Any = plan_now(approval.operation, by.user)
        except ControlPlaneError as error:
            problem = error.message
        else:
            plan, has_changed = planned.plan, planned.plan_hash != row.plan_hash
            sample = getattr(planned, "sample", [])
    return ApprovalDetail(
        row=row,
        may_decide=is_decider,
        plan=plan,
        sample=sample,
        has_changed=has_changed,
        problem=problem,
    )


def approval_of(operation: Operation) -> ApprovalRow | None:
    """What was said of this operation, for whoever sees it; None where it needs no approval. No
    query where the operation was read with its `approval`, `table` and `requested_by`.
    """
    approval: Approval | None = getattr(operation, "approval", None)
    return None if approval is None else _row(approval)


def _seen(by: Decider) -> QuerySet[Approval]:
    approvals = Approval.objects.select_related("operation__table", "operation__requested_by")
    if by.user is None:
        return approvals
    return approvals.filter(operation__table__in=visible_tables(by.user).order_by())


def _row(approval: Approval) -> ApprovalRow:
    operation = approval.operation
    is_open = operation.state == OperationState.AWAITING.value
    is_undecided = approval.decision == Approval.Decision.PENDING.value
    return ApprovalRow(
        operation=operation.pk,
        table_slug=operation.table.slug,
        table_name=operation.table.name,
        action=approval.action,
        title=approval_actions().get(approval.action, approval.action),
        requested_by=requested_by(operation),
        requested_at=operation.requested_at,
        reason=operation.reason,
        plan_hash=operation.plan_hash,
        expires_at=approval.expires_at,
        decision=WITHDRAWN if is_undecided and not is_open else approval.decision,
        decided_by=approval.decided_by_name,
        decided_at=approval.decided_at,
        decision_reason=approval.reason,
        state=operation.state,
    )
