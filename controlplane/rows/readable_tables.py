"""Tables whose rows a person may read, with their columns: what a statement of his may name."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.db.models import Q

from controlplane.rows.answers import RowColumn
from controlplane.rows.choices import load_columns
from controlplane.tables.access import Permission, visible_tables
from controlplane.tables.models import RowGrant
from controlplane.tables.row_access import find_masked_columns

SHOWN_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableTable:
    """A table by the name that a statement has for it."""

    slug: str
    namespace: str
    columns: list[RowColumn]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableTables:
    """Some of them, by slug."""

    tables: list[ReadableTable]
    is_cut: bool
    """Whether there are more."""


def readable_tables(user: User) -> ReadableTables:
    """Return thirty at most. The number of queries does not depend on their number."""
    held = Q(user=user) | Q(group__in=Group.objects.filter(user=user))
    on_tables = RowGrant.objects.filter(held, table__isnull=False)
    elsewhere = RowGrant.objects.filter(held, table__isnull=True)
    keys = list(on_tables.values_list("table_id", flat=True))
    places = list(elsewhere.values_list("namespace", flat=True))
    namespaces, is_everywhere = [place for place in places if place], "" in places
    administered = visible_tables(user, Permission.ADMINISTER).values("pk")
    may_read = Q(pk__in=administered) | Q(pk__in=keys) | Q(namespace__in=namespaces)
    rows = visible_tables(user).order_by("slug")
    rows = rows if is_everywhere else rows.filter(may_read)
    listed = list(rows[: SHOWN_MAX + 1])
    columns = load_columns(find_masked_columns(user, listed[:SHOWN_MAX]))
    return ReadableTables(
        tables=[
            ReadableTable(
                slug=table.slug,
                namespace=table.namespace,
                columns=columns.get(table.pk, []),
            )
            for table in listed[:SHOWN_MAX]
        ],
        is_cut=len(listed) > SHOWN_MAX,
    )
