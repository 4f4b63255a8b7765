"""The list of tables page by page, and the sums over all of it. Costs a few queries, however many
tables there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.errors import InvalidRequest
from controlplane.paging import PAGE_ROWS_MAX, Page
from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table
from controlplane.tables.names import SLUG
from controlplane.tables.queries import TableRow, table_rows

TABLES_SHOWN = 100
Caller = AbstractBaseUser | AnonymousUser


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which of the tables that somebody sees; empty for all of them."""

    search: str = ""
    """Part of a slug, a name or a location, in any case of letters."""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSums:
    """Over every page of the list."""

    tables: int
    active_writers: int
    pending_instants: int
    conflicts_24h: int
    behind: int
    """Tables of which what is shown may not be what storage holds."""


def tables_page(
    user: Caller,
    wanted: Wanted,
    *,
    cursor: str | None = None,
    limit: int = TABLES_SHOWN,
    now: datetime | None = None,
) -> Page[TableRow]:
    """By slug, which is the cursor as well. Six queries at most.

    Raises InvalidRequest for a cursor that is none.
    """
    if cursor and not SLUG.match(cursor):
        raise InvalidRequest("this is no cursor", cursor=cursor[:64])
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    tables = _wanted_tables(user, wanted).order_by("slug")
    if cursor:
        tables = tables.filter(slug__gt=cursor)
    rows = table_rows(tables[: limit + 1], now or timezone.now())
    page = rows[:limit]
    return Page(page, page[-1].slug if len(rows) > limit else None)


def table_sums(user: Caller, wanted: Wanted, *, now: datetime | None = None) -> TableSums:
    """Five queries, each of which the database answers from an index or from the tables alone."""
    at = now or timezone.now()
    tables = _wanted_tables(user, wanted)
    keys = list(tables.order_by().values_list("pk", flat=True))
    stale = at - timedelta(seconds=settings.SLUICE_STALE_AFTER_S)
    behind = Q(synced_at__isnull=True) | Q(synced_at__lt=stale) | ~Q(sync_error="")
    instants = apps.get_model("mirror", "InstantRecord")._default_manager
    beats = apps.get_model("mirror", "HeartbeatRecord")._default_manager
    conflicts = apps.get_model("writers", "Conflict")._default_manager
    return TableSums(
        tables=len(keys),
        active_writers=sum(
            beat.liveness(age_s=(at - beat.beat_at).total_seconds()) in ("alive", "suspect")
            for beat in beats.filter(table__in=keys, is_gone=False)
        ),
        pending_instants=instants.filter(table__in=keys, completed_at__isnull=True).count(),
        conflicts_24h=conflicts.filter(
            table__in=keys, decided_at__gte=at - timedelta(days=1)
        ).count(),
        behind=tables.filter(behind).count(),
    )


def tables_named(user: Caller, name: str) -> list[str]:
    """Slugs of the tables whose slug or name is exactly this, in any case of letters; two at
    most.
    """
    exact = Q(slug__iexact=name) | Q(name__iexact=name)
    return list(visible_tables(user).filter(exact).values_list("slug", flat=True)[:2])


def _wanted_tables(user: Caller, wanted: Wanted) -> QuerySet[Table]:
    tables = visible_tables(user)
    if wanted.namespace:
        tables = tables.filter(namespace=wanted.namespace)
    if wanted.search:
        tables = tables.filter(
            Q(slug__icontains=wanted.search)
            | Q(name__icontains=wanted.search)
            | Q(location__icontains=wanted.search)
        )
    return tables
