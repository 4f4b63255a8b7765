"""Find tables, instants, operations, writers and people for the search field.

Only what the person may see. Each kind is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from controlplane.accounts.roles import is_auditor
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, UndoneRecord
from controlplane.operations.filters import TEXT_CHARS_MAX, OperationFilter, filtered
from controlplane.operations.models import Operation
from controlplane.people.queries.users import PersonRow, list_users
from controlplane.tables.access import visible_tables

HITS_MAX: Final = 10
TEXT_CHARS_MIN: Final = 2
"""Below, a part of a name matches nearly everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHit:
    slug: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantHit:
    slug: str
    table_name: str
    instant: str
    what: str
    """Its action, or that it was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationHit:
    slug: str
    table_name: str
    id: UUID
    what: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterHit:
    slug: str
    table_name: str
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    tables: list[TableHit]
    instants: list[InstantHit]
    operations: list[OperationHit]
    writers: list[WriterHit]
    people: list[PersonRow]


def search(user: User, text: str) -> SearchHits:
    """Find an instant or an operation by its id, and the others by a part of their text. Six
    queries at most.
    """
    is_instant = INSTANT_TIME.match(text) is not None
    is_text = not is_instant and len(text) >= TEXT_CHARS_MIN
    return SearchHits(
        tables=_tables(user, text) if is_text else [],
        instants=_instants(user, text) if is_instant else [],
        operations=_operations(user, text) if is_text else [],
        writers=_writers(user, text) if is_text else [],
        people=list_users(text)[:HITS_MAX] if is_text and is_auditor(user) else [],
    )


def _tables(user: User, text: str) -> list[TableHit]:
    matching = Q(slug__icontains=text) | Q(name__icontains=text)
    tables = visible_tables(user).filter(matching).order_by("name", "slug")
    return [
        TableHit(slug=slug, name=name)
        for slug, name in tables.values_list("slug", "name")[:HITS_MAX]
    ]


def _instants(user: User, text: str) -> list[InstantHit]:
    tables, columns = visible_tables(user), ("table__slug", "table__name", "action")
    rows = InstantRecord.objects.filter(table__in=tables, requested_at=text).values_list(*columns)
    undone = UndoneRecord.objects.filter(table__in=tables, requested_at=text).values_list(*columns)
    return [
        InstantHit(slug=slug, table_name=name, instant=text, what=what)
        for slug, name, what in (
            *rows[:HITS_MAX],
            *((slug, name, "rolled back") for slug, name, _ in undone[:HITS_MAX]),
        )
    ]


def _operations(user: User, text: str) -> list[OperationHit]:
    visible = Operation.objects.filter(table__in=visible_tables(user))
    try:
        operations = visible.filter(pk=UUID(text))
    except ValueError:
        in_text = filtered(visible, OperationFilter(text=text[:TEXT_CHARS_MAX]), user)
        operations = in_text | visible.filter(service__icontains=text)
    return [
        OperationHit(
            slug=row.table.slug,
            table_name=row.table.name,
            id=row.pk,
            what=row.service or row.kind,
            state=row.state,
            reason=row.reason,
        )
        for row in operations.select_related("table").order_by("-requested_at")[:HITS_MAX]
    ]


def _writers(user: User, text: str) -> list[WriterHit]:
    beats = HeartbeatRecord.objects.filter(
        Q(writer_name__icontains=text) | Q(stream__icontains=text),
        table__in=visible_tables(user),
    ).exclude(writer_name="")
    names = beats.order_by("table__slug", "writer_name").values_list(
        "table__slug", "table__name", "writer_name"
    )
    return [
        WriterHit(slug=slug, table_name=name, writer=writer)
        for slug, name, writer in names.distinct()[:HITS_MAX]
    ]
