"""The list of tables page by page, as programs get it. Costs a few queries, however many
tables there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.errors import InvalidRequest
from controlplane.paging import PAGE_ROWS_MAX, Page, chosen_order, in_order
from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table
from controlplane.tables.names import SLUG
from controlplane.tables.queries import TableRow, table_rows

TABLES_SHOWN = 100
SORTED_BY = {key: key for key in ("slug", "name", "namespace", "location", "synced_at")}
"""What tables may be sorted by, and the columns."""
Caller = AbstractBaseUser | AnonymousUser


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which of the tables that somebody sees; empty for all of them."""

    search: str = ""
    """Part of a slug, a name, a location or a description, in any case of letters."""
    namespace: str = ""


def tables_page(
    user: Caller,
    wanted: Wanted,
    *,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = TABLES_SHOWN,
    now: datetime | None = None,
) -> Page[TableRow]:
    """By slug, which is the cursor as well; or as a key of `SORTED_BY` says. Seven queries at most.

    Raises InvalidRequest for a cursor that is none.
    """
    order = chosen_order(sort, SORTED_BY)
    if order is not None:
        chosen = in_order(wanted_tables(user, wanted), order, cursor=cursor, limit=limit)
        keys = [table.pk for table in chosen.rows]
        known = table_rows(Table.objects.filter(pk__in=keys), now or timezone.now())
        by_slug = {row.slug: row for row in known}
        return Page([by_slug[table.slug] for table in chosen.rows], chosen.next_cursor)
    if cursor and not SLUG.match(cursor):
        raise InvalidRequest("invalid cursor", cursor=cursor[:64])
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    tables = wanted_tables(user, wanted).order_by("slug")
    if cursor:
        tables = tables.filter(slug__gt=cursor)
    rows = table_rows(tables[: limit + 1], now or timezone.now())
    page = rows[:limit]
    return Page(page, page[-1].slug if len(rows) > limit else None)


def tables_named(user: Caller, name: str) -> list[str]:
    """Slugs of the tables whose slug or name is exactly this, in any case of letters; two at
    most.
    """
    exact = Q(slug__iexact=name) | Q(name__iexact=name)
    return list(visible_tables(user).filter(exact).values_list("slug", flat=True)[:2])


def wanted_tables(user: Caller, wanted: Wanted) -> QuerySet[Table]:
    """Those that `user` sees and `wanted` names."""
    tables = visible_tables(user)
    if wanted.namespace:
        tables = tables.filter(namespace=wanted.namespace)
    if wanted.search:
        tables = tables.filter(
            Q(slug__icontains=wanted.search)
            | Q(name__icontains=wanted.search)
            | Q(location__icontains=wanted.search)
            | Q(description__icontains=wanted.search)
        )
    return tables
