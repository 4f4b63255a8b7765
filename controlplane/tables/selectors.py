"""The list of tables with the figures that matter first. Reads the database only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Max, Q
from django.utils import timezone

from controlplane.tables.access import Permission, may
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant

DATA_ACTIONS = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    slug: str
    name: str
    table_type: str
    location: str
    last_commit_at: InstantTime | None
    last_commit_age_s: float | None
    active_writers: int
    conflicts_24h: int
    pending_instants: int
    sync_age_s: float | None
    sync_error: str


def tables_overview(
    user: AbstractBaseUser | AnonymousUser, *, now: datetime | None = None
) -> list[TableRow]:
    """Every table that `user` may see, by slug; empty for who may see none. Four queries, however
    many tables.
    """
    if not may(user, Permission.VIEW):
        return []
    at = now or timezone.now()
    commits = dict(
        Table.objects.annotate(
            last=Max(
                "instants__completed_at",
                filter=Q(instants__action__in=DATA_ACTIONS, instants__state="completed"),
            )
        ).values_list("pk", "last")
    )
    pending = dict(
        Table.objects.annotate(
            open=Count(
                "instants", filter=~Q(instants__state="completed") & Q(instants__id__isnull=False)
            )
        ).values_list("pk", "open")
    )
    conflicts = dict(
        Table.objects.annotate(
            recent=Count("conflicts", filter=Q(conflicts__decided_at__gte=at - timedelta(days=1)))
        ).values_list("pk", "recent")
    )
    return [
        TableRow(
            slug=table.slug,
            name=table.name,
            table_type=table.table_type,
            location=table.location,
            last_commit_at=commits.get(table.pk),
            last_commit_age_s=instant_age_s(commits.get(table.pk), at),
            active_writers=_active_writers(table, at),
            conflicts_24h=conflicts.get(table.pk, 0),
            pending_instants=pending.get(table.pk, 0),
            sync_age_s=None if table.synced_at is None else (at - table.synced_at).total_seconds(),
            sync_error=table.sync_error,
        )
        for table in Table.objects.prefetch_related("heartbeats")
    ]


def table_row(table: Table, *, now: datetime | None = None) -> TableRow:
    """The same figures for one table."""
    at = now or timezone.now()
    last = table.instants.filter(action__in=DATA_ACTIONS, state="completed").aggregate(
        last=Max("completed_at")
    )["last"]
    return TableRow(
        slug=table.slug,
        name=table.name,
        table_type=table.table_type,
        location=table.location,
        last_commit_at=last,
        last_commit_age_s=instant_age_s(last, at),
        active_writers=_active_writers(table, at),
        conflicts_24h=table.conflicts.filter(decided_at__gte=at - timedelta(days=1)).count(),
        pending_instants=table.instants.exclude(state="completed").count(),
        sync_age_s=None if table.synced_at is None else (at - table.synced_at).total_seconds(),
        sync_error=table.sync_error,
    )


def instant_age_s(instant: InstantTime | None, now: datetime) -> float | None:
    return None if instant is None else now.timestamp() - parse_instant(instant) / 1000


def _active_writers(table: Table, now: datetime) -> int:
    return sum(
        beat.liveness(age_s=(now - beat.beat_at).total_seconds()) in ("alive", "suspect")
        for beat in table.heartbeats.all()
    )
