"""Trends of a table by day, from the mirror: commits, rows, bytes, durations, gaps, event lag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from statistics import median
from typing import Final, Literal

from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from controlplane.mirror.group_rows import event_lags
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.stream_sight import is_lag_masked
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from controlplane.tables.row_access import RowAccess
from workers.clock import InstantTime, format_instant, parse_instant
from workers.timeline.metadata import STREAM_MAX_ORDERING_KEY

DAYS_MAX: Final = 90
COMMITS_MAX: Final = 20_000
"""Writes that are counted, the newest ones."""
_REWRITES: Final = ("COMPACT", "CLUSTER", "LOG_COMPACT")
_DAY: Final = timedelta(days=1)
EventLag = Literal["reported", "masked", "none"]


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
    event_lag_median_s: float | None
    """From the newest event of a stream's commit to its completion; null on a day without commits
    of streams with event times.
    """
    event_lag_max_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """The days of a period, oldest first; those without a commit too."""

    days: list[TrendDay]
    is_cut: bool
    """Whether there were more commits than are counted; the oldest days are incomplete then."""
    event_lag: EventLag
    """`reported`, or why there is none: no commit of a stream in the period has an event time, or
    an ordering column is masked for the reader.
    """


@dataclass(frozen=True, slots=True)
class _Commit:
    requested_ms: int
    completed_ms: int
    rows: int
    bytes: int


def load_trends(table: Table, days: int, access: RowAccess) -> Trends:
    """Return the last days, today included. Two queries."""
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
    lags, is_masked = _event_lags(table, since, access)
    return Trends(
        days=[
            _day(day, by_day[day], gaps.get(day), lags.get(day, ()))
            for day in (first + at * _DAY for at in range(days))
        ],
        is_cut=len(newest) > COMMITS_MAX,
        event_lag="reported" if lags else "masked" if is_masked else "none",
    )


def _event_lags(
    table: Table, since: InstantTime, access: RowAccess
) -> tuple[dict[date, list[float]], bool]:
    """Return the lag of each commit of each stream in seconds, by the day of its completion, and
    whether a lag was left out for a mask. One query.
    """
    records = InstantRecord.objects.filter(
        table=table, action__in=DATA_ACTIONS, completed_at__gte=since
    ).exclude(operation_type__in=_REWRITES)
    if not table.groups:
        records = records.exclude(stream="")
    greatest = KeyTextTransform(STREAM_MAX_ORDERING_KEY, KeyTransform("extra", "metadata"))
    newest = records.order_by("-completed_at").values_list(
        "completed_at", "stream", "metadata__groups", greatest
    )
    get_lag_s, is_hidden = event_lags(table), cache(partial(is_lag_masked, table, access))
    lags: dict[date, list[float]] = defaultdict(list)
    is_masked = False
    for completed_at, stream, groups, ordering in newest[:COMMITS_MAX]:
        completed_ms = parse_instant(str(completed_at))
        day = datetime.fromtimestamp(completed_ms / 1000, UTC).date()
        events = {name: facts.get("greatest") for name, facts in (groups or {}).items()}
        for name, event in (events or {stream: ordering}).items():
            lag_s = get_lag_s(name, event, completed_ms)
            if lag_s is None:
                continue
            if is_hidden(name):
                is_masked = True
            else:
                lags[day].append(lag_s)
    return lags, is_masked


def _day(
    day: date, commits: Sequence[_Commit], gap_max_s: float | None, lags_s: Sequence[float]
) -> TrendDay:
    durations = [(commit.completed_ms - commit.requested_ms) / 1000 for commit in commits]
    return TrendDay(
        day=day.isoformat(),
        commits=len(commits),
        rows=sum(commit.rows for commit in commits),
        bytes=sum(commit.bytes for commit in commits),
        duration_median_s=median(durations) if durations else None,
        duration_max_s=max(durations, default=None),
        gap_max_s=gap_max_s,
        event_lag_median_s=median(lags_s) if lags_s else None,
        event_lag_max_s=max(lags_s, default=None),
    )
