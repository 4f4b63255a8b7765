"""Latest conflicts, pending markers and join status over all tables that a user sees. The queries
are built here and read by `read_together`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery, Sum, Window

from controlplane.home.work import NOT_SHOWN
from controlplane.mirror.group_rows import ordering_of
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, MarkerCount, StreamStatus
from controlplane.mirror.stream_lags import event_of, processing_lag_s
from controlplane.tables.access import visible_tables
from controlplane.tables.masks import masks_part
from controlplane.tables.row_access import find_masked_columns
from controlplane.writers.models import Conflict
from workers.clock import InstantTime, parse_instant

SHOWN: Final = 6
INSTANTS_READ: Final = 1_000
"""Pending instants whose markers are counted; where there are more, the oldest."""
_OF_TABLE: Final = ("table__slug", "table__name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictLine:
    slug: str
    table_name: str
    kind: str
    """write or schema"""
    winner: str
    loser: str
    loser_instant: InstantTime
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerLine:
    """The markers of one instant."""

    slug: str
    table_name: str
    instant: InstantTime
    writer: str
    markers: int
    age_s: float
    is_orphan: bool
    """The instant is no longer pending; the next writer removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMarkers:
    rows: list[MarkerLine]
    """The oldest first."""
    total: int
    instants: int
    is_cut: bool
    """More instants have markers than were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLine:
    """How complete the joined rows of a table are for one of its streams."""

    slug: str
    table_name: str
    stream: str
    rows_with: int
    rows_total: int
    coverage_pct: float | None
    lag_s: float | None
    """In event time; None where the ordering is not a time, or is masked for the user."""
    processing_lag_s: float | None
    """From its newest commit to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedStreams:
    rows: list[StreamLine]
    """The one that committed last comes first."""
    total: int


def conflicts_query(user: User, limit: int = SHOWN) -> QuerySet[Any, Any]:
    conflicts = Conflict.objects.filter(table__in=visible_tables(user).order_by())
    columns = ("kind", "winner_writer", "loser_writer", "loser_instant", "decided_at")
    newest = conflicts.order_by("-decided_at", "-loser_instant")[:limit]
    rows: QuerySet[Any, Any] = newest.values(*_OF_TABLE, *columns)
    return rows


def conflict_lines(rows: Iterable[dict[str, Any]]) -> list[ConflictLine]:
    return [
        ConflictLine(
            slug=row["table__slug"],
            table_name=row["table__name"],
            kind=row["kind"],
            winner=row["winner_writer"],
            loser=row["loser_writer"],
            loser_instant=row["loser_instant"],
            decided_at=row["decided_at"],
        )
        for row in rows
    ]


def markers_query(user: User) -> QuerySet[Any, Any]:
    beats = HeartbeatRecord.objects.filter(table=OuterRef("table"), instant=OuterRef("instant"))
    pending = InstantRecord.objects.filter(
        table=OuterRef("table"), requested_at=OuterRef("instant"), completed_at__isnull=True
    )
    counts = MarkerCount.objects.filter(table__in=visible_tables(user).order_by()).order_by()
    rows: QuerySet[Any, Any] = (
        counts.values(*_OF_TABLE, "table", "instant")
        .annotate(
            markers=Sum("count"),
            writer=Subquery(beats.values("writer_name")[:1]),
            is_pending=Exists(pending),
        )
        .order_by("instant", "table")[: INSTANTS_READ + 1]
    )
    return rows


def load_markers(
    groups: Sequence[dict[str, Any]], now: datetime, limit: int = SHOWN
) -> PendingMarkers:
    rows = groups[:INSTANTS_READ]
    return PendingMarkers(
        rows=[
            MarkerLine(
                slug=row["table__slug"],
                table_name=row["table__name"],
                instant=row["instant"],
                writer=row["writer"] or "",
                markers=row["markers"],
                age_s=now.timestamp() - parse_instant(row["instant"]) / 1000,
                is_orphan=not row["is_pending"],
            )
            for row in rows[:limit]
        ],
        total=sum(row["markers"] for row in rows),
        instants=len(rows),
        is_cut=len(groups) > INSTANTS_READ,
    )


def streams_query(user: User, limit: int = SHOWN) -> QuerySet[StreamStatus]:
    """The total is an annotation of each row."""
    not_shown = [name for name in NOT_SHOWN if name != "groups"]
    statuses = StreamStatus.objects.filter(table__in=visible_tables(user).order_by())
    return (
        statuses.select_related("table")
        .defer("columns", *(f"table__{name}" for name in not_shown))
        .annotate(total=Window(Count("pk")))
        .order_by("-last_commit_at", "table", "stream")[:limit]
    )


def load_streams(user: User, statuses: Sequence[StreamStatus], now: datetime) -> JoinedStreams:
    """Lags of streams whose ordering columns are masked for `user` are left out. One query, or none
    where nothing is shown or the request has read the masks before.
    """
    masked = find_masked_columns(
        user, {status.table.pk: status.table for status in statuses}.values()
    )
    return JoinedStreams(
        rows=[_stream_line(status, masked[status.table.pk], now) for status in statuses],
        total=int(vars(statuses[0])["total"]) if statuses else 0,
    )


def _stream_line(status: StreamStatus, masked: frozenset[str], now: datetime) -> StreamLine:
    total = status.rows_with + status.rows_without
    event_at = event_of(status)
    is_hidden = any(masks_part(name, masked) for name in ordering_of(status.table, status.stream))
    return StreamLine(
        slug=status.table.slug,
        table_name=status.table.name,
        stream=status.stream,
        rows_with=status.rows_with,
        rows_total=total,
        coverage_pct=100 * status.rows_with / total if total else None,
        lag_s=None if event_at is None or is_hidden else (now - event_at).total_seconds(),
        processing_lag_s=processing_lag_s(status.last_commit_at, now),
    )
