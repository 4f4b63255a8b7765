"""How an operation comes to await approval, and how long."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.operations.approvals.rules import action_named
from controlplane.operations.models import Approval, Operation
from controlplane.operations.moves import move
from controlplane.operations.states import OperationState

AWAITED_FOR = timedelta(hours=24)
NODE = "control-plane"
"""Who ends what nobody decided, for the audit."""


def do_await(operation: Operation, *, by: str) -> Approval:
    """Note that it needs a second person. Inside the transaction that makes the operation."""
    approval = Approval.objects.create(
        operation=operation,
        action=action_named(operation.kind, operation.service),
        expires_at=timezone.now() + AWAITED_FOR,
    )
    record_approval(approval, "approval.request", who=by, result="requested", reason="")
    return approval


def do_expire_if_due(operation: Operation, now: datetime) -> bool:
    """Whether its time is over, and it has ended by that."""
    approval = Approval.objects.filter(operation=operation, expires_at__lte=now).first()
    if approval is None:
        return False
    return do_end(operation, Approval.Decision.EXPIRED, who=NODE, words="not approved in time")


def do_end(
    operation: Operation, decision: Approval.Decision, *, who: str, words: str, reason: str = ""
) -> bool:
    """End an operation that awaits approval as refused; False where somebody came first."""
    with transaction.atomic():
        if not is_held_awaiting(operation):
            return False
        Approval.objects.filter(operation=operation).update(
            decision=decision.value, decided_by_name=who, decided_at=timezone.now(), reason=reason
        )
        approval = Approval.objects.select_related("operation__table").get(operation=operation)
        record_approval(
            approval, f"approval.{_WHAT[decision]}", who=who, result=decision.value, reason=reason
        )
        move(operation.pk, OperationState.REFUSED, message=words)
    return True


def is_held_awaiting(operation: Operation) -> bool:
    """Whether it awaits approval, as nobody changes before the transaction at hand ends."""
    rows = Operation.objects.select_for_update().filter(pk=operation.pk)
    return rows.values_list("state", flat=True).first() == OperationState.AWAITING.value


def record_approval(approval: Approval, what: str, *, who: str, result: str, reason: str) -> None:
    """One row of the audit, of the operation's table."""
    operation = approval.operation
    do_record(
        who=who,
        what=what,
        subject=operation.table.slug,
        result=result,
        reason=reason,
        plan_hash=operation.plan_hash,
        details={"operation": str(operation.pk), "action": approval.action},
    )


_WHAT = {
    Approval.Decision.DECLINED: "decline",
    Approval.Decision.EXPIRED: "expire",
    Approval.Decision.VOID: "void",
}
