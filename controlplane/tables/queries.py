"""Tables with the figures that matter first. Reads the database only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from controlplane.tables.access import visible_tables
from controlplane.tables.freshness import Freshness, failing_tables, freshness, freshness_of
from controlplane.tables.models import Table
from controlplane.tables.targets import get_freshness_target, query_target_minutes
from workers.clock import InstantTime, parse_instant

_NOT_SHOWN = ("groups", "join_needs", "properties", "property_changes", "overtaken")
"""Of a list: long, and to be decoded."""
_FILE_TOTALS = ("base_rows", "log_files", "uncounted")
PENDING = ("requested", "inflight")
OPEN_INSTANTS = Q(instants__state__in=PENDING, instants__completed_at__isnull=True)
"""Of a table. The second says what the first does, as the index has it."""
DATA_ACTIONS = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    slug: str
    name: str
    namespace: str
    table_type: str
    table_version: int
    """0 until the table is read for the first time."""
    is_foreign: bool
    """Another engine made it."""
    write_refusal: str
    """Why Sluice does not write into it; empty when it does."""
    location: str
    owner: str
    """Whom to ask about it; empty where nobody said."""
    tags: str
    """Words with a space between two."""
    description: str
    """What the table holds, in one paragraph."""
    last_commit_at: InstantTime | None
    last_commit_age_s: float | None
    freshness_target_min: float | None
    """How old the newest commit may be, in minutes; null for no target."""
    is_default_target: bool
    """The target is SLUICE_FRESHNESS_TARGET_MIN, and no check uses it."""
    base_file_rows: int | None
    """Rows in the base files of the newest slices; null while no file group is counted."""
    unmerged_log_files: int
    """Log files of the newest slices. Rows in them are not counted in `base_file_rows`."""
    uncounted_file_groups: int
    """File groups whose base file is not counted."""
    active_writers: int
    conflicts_24h: int
    pending_instants: int
    synced_at: datetime | None
    """What is shown of it is what storage held then."""
    sync_age_s: float | None
    """How old is what is shown."""
    sync_state: str
    """fresh, stale, unread, partial or unreadable: see `freshness.Freshness`."""
    sync_problem: str
    """Why it cannot be read, in words; empty while it can."""
    sync_error: str
    """What the attempt to read it was answered."""
    sync_failing_since: datetime | None
    lock_provider: str
    """Empty until the table is read for the first time."""


def table_rows(tables: QuerySet[Table], at: datetime) -> list[TableRow]:
    """A row for each of these tables, in their order. Five queries, however many there are."""
    shown = tables.annotate(
        last_commit_at=_last_commit(),
        target_min=query_target_minutes(),
        **{name: F(f"file_totals__{name}") for name in _FILE_TOTALS},
    ).defer(*_NOT_SHOWN)
    listed = list(shown.prefetch_related("heartbeats"))
    keys = [table.pk for table in listed]
    pending = _counts("mirror", "InstantRecord", keys, completed_at__isnull=True)
    conflicts = _counts("writers", "Conflict", keys, decided_at__gte=at - timedelta(days=1))
    failing = failing_tables(keys)
    return [
        TableRow(
            slug=table.slug,
            name=table.name,
            namespace=table.namespace,
            table_type=table.table_type,
            table_version=table.table_version,
            is_foreign=table.is_foreign,
            write_refusal=table.write_refusal,
            location=table.location,
            owner=table.owner,
            tags=table.tags,
            description=table.description,
            last_commit_at=table.last_commit_at,
            last_commit_age_s=instant_age_s(table.last_commit_at, at),
            **_target_columns(table.target_min),
            **_row_columns(*(vars(table)[name] for name in _FILE_TOTALS)),
            active_writers=_active_writers(table, at),
            conflicts_24h=conflicts.get(table.pk, 0),
            pending_instants=pending.get(table.pk, 0),
            **_sync_columns(freshness_of(table, at, failing.get(table.pk, ("", None)))),
            lock_provider=table.lock_provider,
        )
        for table in listed
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    name: str
    tables: int


def namespaces_of(user: AbstractBaseUser | AnonymousUser) -> list[NamespaceRow]:
    """Namespaces in which `user` may see a table, by name, with how many he sees."""
    counted = visible_tables(user).order_by("namespace").values("namespace").annotate(n=Count("pk"))
    return [
        NamespaceRow(name=name, tables=tables)
        for name, tables in counted.values_list("namespace", "n")
    ]


def counts_query(table: Table, at: datetime) -> QuerySet[Table, Any]:
    """Return the query of what `table_row` counts."""
    counted = Table.objects.filter(pk=table.pk).annotate(
        last_commit_at=_last_commit(),
        recent=_count_of("writers", "Conflict", decided_at__gte=at - timedelta(days=1)),
        pending=_count_of("mirror", "InstantRecord", completed_at__isnull=True),
    )
    totals = [f"file_totals__{name}" for name in _FILE_TOTALS]
    return counted.values_list(
        "last_commit_at", "recent", "pending", query_target_minutes(), *totals
    )


def table_row(
    table: Table,
    *,
    now: datetime | None = None,
    active_writers: int | None = None,
    counts: QuerySet[Table, Any] | None = None,
) -> TableRow:
    """Return the same figures for one table. A query each for the active writers, for the counts
    and for a table that cannot be read, as far as the caller has not read them before.
    """
    at = now or timezone.now()
    rows = counts_query(table, at) if counts is None else counts
    [(last, recent, pending, target_min, *totals)] = rows
    return TableRow(
        slug=table.slug,
        name=table.name,
        namespace=table.namespace,
        table_type=table.table_type,
        table_version=table.table_version,
        is_foreign=table.is_foreign,
        write_refusal=table.write_refusal,
        location=table.location,
        owner=table.owner,
        tags=table.tags,
        description=table.description,
        last_commit_at=last,
        last_commit_age_s=instant_age_s(last, at),
        **_target_columns(target_min),
        **_row_columns(*totals),
        active_writers=_active_writers(table, at) if active_writers is None else active_writers,
        conflicts_24h=recent or 0,
        pending_instants=pending or 0,
        **_sync_columns(freshness(table, now=at)),
        lock_provider=table.lock_provider,
    )


def _target_columns(threshold_min: float | None) -> dict[str, Any]:
    target = get_freshness_target(threshold_min)
    return {
        "freshness_target_min": target and target.minutes,
        "is_default_target": target is not None and target.is_default,
    }


def _row_columns(rows: int | None, log_files: int | None, uncounted: int | None) -> dict[str, Any]:
    return {
        "base_file_rows": rows,
        "unmerged_log_files": log_files or 0,
        "uncounted_file_groups": uncounted or 0,
    }


def _sync_columns(fresh: Freshness) -> dict[str, Any]:
    return {
        "synced_at": fresh.as_of,
        "sync_age_s": fresh.age_s,
        "sync_state": fresh.verdict,
        "sync_problem": fresh.title,
        "sync_error": fresh.reason,
        "sync_failing_since": fresh.failing_since,
    }


def _last_commit() -> Subquery:
    """Reads one index entry per table. The mirror lies above, so its model is asked for by name."""
    instants = apps.get_model("mirror", "InstantRecord")._default_manager
    newest = instants.filter(
        table=OuterRef("pk"), action__in=DATA_ACTIONS, completed_at__isnull=False
    )
    return Subquery(newest.order_by("-completed_at").values("completed_at")[:1])


def _count_of(app: str, model: str, **conditions: object) -> Subquery:
    """Null for none."""
    rows = apps.get_model(app, model)._default_manager.filter(table=OuterRef("pk"), **conditions)
    counted = rows.order_by().values("table").annotate(n=Count("pk"))
    return Subquery(counted.values("n"))


def _counts(app: str, model: str, keys: list[int], **conditions: object) -> dict[int, int]:
    """How many related rows fulfil the conditions, per table that has any."""
    rows = apps.get_model(app, model)._default_manager.filter(table__in=keys, **conditions)
    return dict(rows.order_by().values("table").annotate(n=Count("pk")).values_list("table", "n"))


def instant_age_s(instant: InstantTime | None, now: datetime) -> float | None:
    return None if instant is None else now.timestamp() - parse_instant(instant) / 1000


def _active_writers(table: Table, now: datetime) -> int:
    return sum(
        beat.liveness(age_s=(now - beat.beat_at).total_seconds()) in ("alive", "suspect")
        for beat in table.heartbeats.all()
    )
