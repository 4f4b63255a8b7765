"""What people did lately, as far as somebody may see it: auditors all of it, others what concerns
the tables that they see.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    id: int
    at: datetime
    who: str
    what: str
    object: str
    """A table's slug, mostly."""
    is_table: bool
    """Whether it is the slug of a table that the reader sees."""
    reason: str
    result: str


def recent_deeds(user: User, limit: int = SHOWN) -> list[Deed]:
    """Newest first. One query."""
    # A slug that was another table's before shows nothing of that one.
    table = visible_tables(user).filter(slug=OuterRef("object"), registered_at__lte=OuterRef("at"))
    events = AuditEvent.objects.annotate(is_table=Exists(table.order_by()))
    if is_auditor(user):
        events = events.exclude(_starts(_NO_DEEDS))
    else:
        events = events.filter(_starts(_OF_TABLES), is_table=True)
    columns = ("pk", "at", "who", "what", "object", "is_table", "reason", "result")
    return [
        Deed(
            id=key, at=at, who=who, what=what, object=slug, is_table=is_table, reason=reason,
            result=result,
        )
        for key, at, who, what, slug, is_table, reason, result in events.order_by(
            "-pk"
        ).values_list(*columns)[:limit]
    ]  # fmt: skip


def _starts(families: tuple[str, ...]) -> Q:
    conditions = Q()
    for family in families:
        conditions |= Q(what__startswith=family)
    return conditions
