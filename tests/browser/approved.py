"""What a second admin asked for and nobody has approved of yet, beside what was declined."""

from __future__ import annotations

from django.contrib.auth.models import Group, User

from controlplane.operations.actions import do_request_service, plan_service
from controlplane.operations.approvals.deciding import Decider, do_decline
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.approvals import needs_approval

PARTITIONS = {"partitions": "narvik"}


def await_approval(table: Table) -> dict[str, str]:
    """By name the operation that awaits approval."""
    needs_approval("delete_partition", table)
    ida = User.objects.create_user("ida")
    ida.groups.add(Group.objects.get(name="admin"))
    declined = _requested(table, ida, "the year is loaded again")
    do_decline(
        declined.pk,
        by=Decider.person(User.objects.get(username="ada")),
        reason="not before the books are closed",
    )
    return {"awaiting": str(_requested(table, ida, "the books are closed").pk)}


def _requested(table: Table, by: User, reason: str) -> Operation:
    plan = plan_service(table, "delete_partition", PARTITIONS, by)
    return do_request_service(
        table, "delete_partition", PARTITIONS, plan.plan_hash, reason, table.slug, by
    )
