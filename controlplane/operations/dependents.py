"""Find the dependents of a role, which are shown before the role is removed."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from controlplane.operations.models import Operation, Schedule
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table

SHOWN_MAX = 10
_PENDING = (OperationState.AWAITING.value, OperationState.QUEUED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """Tables, operations and schedules that depend on a role of a user or a group at one place."""

    tables: list[str]
    """Slugs, the first of them."""
    table_count: int
    pending: int
    """Operations that they asked for and that have not begun: each asks for the role again."""
    schedules: list[str]
    """`table/name` of those that run in their name, the first of them."""
    schedule_count: int


def find_dependents(
    *, user: str = "", group: str = "", namespace: str = "", table: str = ""
) -> Dependents:
    """Return what depends on a role of this user or group: on a table, in a namespace, or
    everywhere if both are empty. At most five queries.
    """
    holders = User.objects.filter(Q(username=user) if user else Q(groups__name=group))
    tables: QuerySet[Table] = Table.objects.order_by("slug")
    if table:
        tables = tables.filter(slug=table)
    elif namespace:
        tables = tables.filter(namespace=namespace)
    pending = Operation.objects.filter(
        state__in=_PENDING, requested_by__in=holders, table__in=tables.order_by()
    )
    schedules = Schedule.objects.filter(owner__in=holders, table__in=tables.order_by())
    named = schedules.order_by("table__slug", "name").values_list("table__slug", "name")
    return Dependents(
        tables=list(tables.values_list("slug", flat=True)[:SHOWN_MAX]),
        table_count=tables.count(),
        pending=pending.count(),
        schedules=[f"{slug}/{name}" for slug, name in named[:SHOWN_MAX]],
        schedule_count=schedules.count(),
    )
