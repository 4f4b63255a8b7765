"""Health checks of writers that may be dead, and of markers of dead writers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, QuerySet, Subquery

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import ago, many, spoken
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, MarkerDirectory
from controlplane.mirror.thresholds import Limits
from controlplane.tables.models import Table
from workers.clock import InstantTime


@dataclass(frozen=True, slots=True)
class Beats:
    living: frozenset[InstantTime]
    """Instants whose heartbeat is alive or suspect."""
    suspects: tuple[tuple[InstantTime, str, float], ...]
    """Instant, writer, and how many seconds ago it beat last, the oldest beat first."""


def beats_query(table: Table) -> QuerySet[HeartbeatRecord]:
    """Return the query of heartbeats in storage, the oldest first."""
    return HeartbeatRecord.objects.filter(table=table, is_gone=False).order_by("beat_at")


def beats_at(beats: Iterable[HeartbeatRecord], now: datetime) -> Beats:
    """Sort what `beats_query` found by liveness."""
    living: set[InstantTime] = set()
    suspects = []
    for beat in beats:
        age_s = (now - beat.beat_at).total_seconds()
        verdict = beat.liveness(age_s=age_s)
        if verdict in ("alive", "suspect"):
            living.add(beat.instant)
        if verdict == "suspect":
            suspects.append((beat.instant, beat.writer_name, age_s))
    return Beats(frozenset(living), tuple(suspects))


def suspect_check(beats: Beats) -> list[Check]:
    """Return the check; none without active writers."""
    if not beats.living:
        return []
    title = "Heartbeats on time"
    if not beats.suspects:
        sentence = f"{many(len(beats.living), 'heartbeat')} on time"
        return [Check(name="suspect-writer", title=title, verdict="good", sentence=sentence)]
    instant, writer, age_s = beats.suspects[0]
    others = f"; {many(len(beats.suspects) - 1, 'other')} too" if len(beats.suspects) > 1 else ""
    return [
        Check(
            name="suspect-writer",
            title=title,
            verdict="warn",
            sentence=f"last heartbeat of {writer or 'a writer'} {spoken(age_s)} ago, expires soon"
            + others,
            advice="Check its process for a long pause, a lost host or a full disk. When its "
            "heartbeat expires, another writer may roll it back.",
            instant=instant,
        )
    ]


def orphan_columns(limits: Limits, now: datetime) -> Mapping[str, Subquery | Exists]:
    """Return columns to annotate on a query with a `table`, which save a query."""
    pending = InstantRecord.objects.filter(
        table=OuterRef("table"), requested_at=OuterRef("instant"), completed_at__isnull=True
    )
    orphans = MarkerDirectory.objects.filter(
        ~Exists(pending),
        table=OuterRef("table"),
        changed_at__lt=now - timedelta(minutes=limits["orphan-age"]),
    )
    by_table = orphans.order_by().values("table")
    return {
        "orphans": Subquery(by_table.annotate(n=Count("pk")).values("n")),
        "oldest_orphan": Subquery(by_table.annotate(at=Min("instant")).values("at")),
        "has_markers": Exists(MarkerDirectory.objects.filter(table=OuterRef("table"))),
    }


def orphan_check(columns: Mapping[str, Any], now: datetime) -> list[Check]:
    """Return the check; none for a table without markers."""
    if not columns["has_markers"]:
        return []
    title = "No orphaned markers"
    if not columns["orphans"]:
        good = "all markers belong to pending instants"
        return [Check(name="orphans", title=title, verdict="good", sentence=good)]
    oldest = columns["oldest_orphan"]
    return [
        Check(
            name="orphans",
            title=title,
            verdict="warn",
            sentence=f"markers of {many(columns['orphans'], 'instant')} that are not pending; "
            f"the oldest is from {ago(oldest, now)}",
            advice="The writer died after its instant ended, before it deleted its markers. The "
            "next writer deletes them, as does the repair service.",
            instant=oldest,
        )
    ]
