"""Recent actions of people, as far as a user may see them: auditors see all of them, others those
on the tables that they see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import OuterRef, Q, QuerySet, Subquery

from controlplane.accounts.roles import is_auditor
from controlplane.audit.models import AuditEvent
from controlplane.tables.access import visible_tables

SHOWN: Final = 12
_OF_TABLES: Final = (
    "columns.", "demo.", "operation.", "recovery.", "schedule.", "service.", "sink.", "stream.",
    "table.",
)  # fmt: skip
"""Families of actions whose object is the slug of a table. What is left out concerns people, or
says who looked at which rows.
"""
_NO_DEEDS: Final = ("audit.", "session.", "rows.")
"""What an auditor finds in the audit, and nobody did to anything."""

_COLUMNS: Final = ("pk", "at", "who", "what", "object", "table_name", "reason", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentAction:
    id: int
    at: datetime
    who: str
    what: str
    object: str
    """A table's slug, mostly."""
    table_name: str
    """The name of the table with this slug; empty where the reader sees no such table."""
    reason: str
    result: str


def deeds_query(user: User, limit: int = SHOWN) -> QuerySet[Any, Any]:
    """Return the query of actions, the newest first."""
    # A slug that was another table's before shows nothing of that one.
    tables = visible_tables(user).filter(slug=OuterRef("object"), registered_at__lte=OuterRef("at"))
    name = Subquery(tables.order_by().values("name")[:1])
    events = AuditEvent.objects.annotate(table_name=name)
    if is_auditor(user):
        events = events.exclude(_starts(_NO_DEEDS))
    else:
        events = events.filter(_starts(_OF_TABLES), table_name__isnull=False)
    return events.order_by("-pk").values_list(*_COLUMNS)[:limit]


def recent_actions(rows: Iterable[tuple[Any, ...]]) -> list[RecentAction]:
    """Name the columns that `deeds_query` found."""
    deeds = (dict(zip(_COLUMNS, row, strict=True)) for row in rows)
    return [
        RecentAction(id=deed.pop("pk"), table_name=deed.pop("table_name") or "", **deed)
        for deed in deeds
    ]


def _starts(families: tuple[str, ...]) -> Q:
    conditions = Q()
    for family in families:
        conditions |= Q(what__startswith=family)
    return conditions
