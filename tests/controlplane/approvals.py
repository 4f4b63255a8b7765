"""An operation that awaits the approval of a second person, the rule that wants it, and what that
person says.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.operations.approvals.deciding import Decider, do_approve, do_decline
from controlplane.operations.models import Approval, ApprovalRule, Operation
from controlplane.tables.models import Table


def needs_approval(action: str, table: Table | None = None, namespace: str = "") -> ApprovalRule:
    """From now on, on the table, in the namespace, or everywhere."""
    return ApprovalRule.objects.create(
        action=action, table=table, namespace=namespace, set_by="ada"
    )


def awaiting(table: Table, *, predicate: str = "") -> Operation:
    """A rollback, or a delete of these rows, that nobody of this test asked for."""
    instant = "" if predicate else "20260101000000000"
    job = {"parameters": {"predicate": predicate}} if predicate else {"instant": instant}
    operation = Operation.objects.create(
        table=table,
        kind="service" if predicate else "rollback",
        service="delete" if predicate else "",
        state="awaiting",
        instant=instant,
        plan_hash="0" * 64,
        parameters={"job": {**job, "by": "zoe"}},
    )
    Approval.objects.create(
        operation=operation,
        action=operation.service or operation.kind,
        expires_at=timezone.now() + timedelta(hours=1),
    )
    return operation


def approve(operation: Operation, by: User, plan_hash: str = "") -> Operation:
    """With the hash of its plan where no other is given."""
    hashed = plan_hash or operation.plan_hash
    return do_approve(operation.pk, by=Decider.person(by), plan_hash=hashed, reason="I looked")


def decline(operation: Operation, by: User) -> None:
    """With a reason."""
    do_decline(operation.pk, by=Decider.person(by), reason="not that one")
