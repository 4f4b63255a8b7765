"""Trends of a table by day, from the mirror: commits, rows, bytes, durations and gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Final

from django.utils import timezone

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import format_instant, parse_instant

DAYS_MAX: Final = 90
COMMITS_MAX: Final = 20_000
"""Writes that are counted, the newest ones."""
_REWRITES: Final = ("COMPACT", "CLUSTER", "LOG_COMPACT")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendDay:
    """One day in UTC."""

    day: str
    """Such as `2026-01-31`."""
    commits: int
    """Completed writes. Compaction and clustering are left out."""
    rows: int
    """That these commits wrote."""
    bytes: int
    """That these commits wrote."""
    duration_median_s: float | None
    """From request to completion; null on a day without a commit."""
    duration_max_s: float | None
    gap_max_s: float | None
    """The longest time without a new commit that ended on this day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """The days of a period, oldest first; those without a commit too."""

    days: list[TrendDay]
    is_cut: bool
    """Whether there were more commits than are counted; the oldest days are incomplete then."""


@dataclass(frozen=True, slots=True)
class _Commit:
    requested_ms: int
    completed_ms: int
    rows: int
    bytes: int


def load_trends(table: Table, days: int) -> Trends:
    """Return the last days, today included. One query."""
    today = timezone.now().astimezone(UTC).date()
    first = today - (days - 1) * _DAY
    since = format_instant(int(datetime(*first.timetuple()[:3], tzinfo=UTC).timestamp() * 1000))
    records = (
        InstantRecord.objects.filter(table=table, action__in=DATA_ACTIONS, completed_at__gte=since)
        .exclude(operation_type__in=_REWRITES)
        .order_by("-completed_at")
        .values_list("requested_at", "completed_at", "rows", "bytes")
    )
    newest = list(records[: COMMITS_MAX + 1])
    commits = [
        _Commit(parse_instant(requested), parse_instant(str(completed)), rows or 0, size or 0)
        for requested, completed, rows, size in reversed(newest[:COMMITS_MAX])
    ]
    by_day: dict[date, list[_Commit]] = defaultdict(list)
    gaps: dict[date, float] = {}
    for before, commit in zip([None, *commits], commits, strict=False):
        day = datetime.fromtimestamp(commit.completed_ms / 1000, UTC).date()
        by_day[day].append(commit)
        if before is not None:
            gap_s = (commit.completed_ms - before.completed_ms) / 1000
            gaps[day] = max(gaps.get(day, 0.0), gap_s)
    return Trends(
        days=[
            _day(first + at * _DAY, by_day[first + at * _DAY], gaps.get(first + at * _DAY))
            for at in range(days)
        ],
        is_cut=len(newest) > COMMITS_MAX,
    )


def _day(day: date, commits: Sequence[_Commit], gap_max_s: float | None) -> TrendDay:
    durations = [(commit.completed_ms - commit.requested_ms) / 1000 for commit in commits]
    return TrendDay(
        day=day.isoformat(),
        commits=len(commits),
        rows=sum(commit.rows for commit in commits),
        bytes=sum(commit.bytes for commit in commits),
        duration_median_s=median(durations) if durations else None,
        duration_max_s=max(durations, default=None),
        gap_max_s=gap_max_s,
    )
