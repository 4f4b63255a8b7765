"""What the tables that somebody sees did in each of the last hours. A query for commits, one for
conflicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeVar

from django.db import connection
from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Sum,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Substr, TruncHour

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from controlplane.writers.models import Conflict

HOURS: Final = 24
_HOUR_DIGITS: Final = 10
"""An instant is text: so many of its digits are its hour, and the database groups by them."""
_OPEN_HOURS: Final = 3
"""The newest ones are counted each time: what the mirror is late with belongs to them."""
_KEPT_LEAST: Final = 2_000
"""Fewer commits are counted sooner than anybody sees."""
_KEPT_MAX: Final = 64


@dataclass(slots=True)
class Hourly:
    """Counts by hour, the oldest first; the last one is the hour at hand."""

    counts: list[int] = field(default_factory=lambda: [0] * HOURS)
    rows: int = 0
    """Rows that its commits wrote, as far as they say."""

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(slots=True)
class Losses:
    """Writes of one table that lost a conflict."""

    counts: list[int] = field(default_factory=lambda: [0] * HOURS)
    open: int = 0
    """Of writers that committed nothing since: what they wanted to write is not in the table."""
    newest_at: datetime | None = None
    """Of the open ones."""

    @property
    def total(self) -> int:
        return sum(self.counts)


def hour_starts(now: datetime) -> list[datetime]:
    """The oldest first."""
    this = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [this - timedelta(hours=HOURS - 1 - at) for at in range(HOURS)]


def commits_by_hour(tables: Collection[int], starts: Sequence[datetime]) -> Mapping[int, Hourly]:
    """By the key of a table that committed something. One query."""
    key = (frozenset(tables), starts[0])
    if (ended := _kept_by_table.get(key)) is not None:
        return _hourly(_rows(tables, starts[-_OPEN_HOURS:]), starts, ended)
    rows = [*_rows(tables, starts)]
    first_open = _hour(starts[-_OPEN_HOURS])
    ended_rows = [row for row in rows if row[1] < first_open]
    if sum(commits for _, _, commits, _ in ended_rows) >= _KEPT_LEAST:
        _keep(_kept_by_table, key, _hourly(ended_rows, starts, {}))
    return _hourly(rows, starts, {})


def commits_of_day(tables: Collection[int], starts: Sequence[datetime]) -> Mapping[int, int]:
    """Commits since the first of `starts` by the key of a table, without their hours and rows: what
    a list is sorted by. One query of an index alone.
    """
    key = (frozenset(tables), starts[0])
    first_open = _hour(starts[-_OPEN_HOURS])
    if (ended := _kept_totals.get(key)) is not None:
        totals = Counter(ended)
        for table, commits in _totals(tables, starts[-_OPEN_HOURS:]):
            totals[table] += commits
        return totals
    by_time = _commits(tables, starts).annotate(is_open=_is_since(first_open))
    rows = [*by_time.values_list("table", "is_open").annotate(n=Count("completed_at"))]
    ended = {table: commits for table, is_open, commits in rows if not is_open}
    if sum(ended.values()) >= _KEPT_LEAST:
        _keep(_kept_totals, key, ended)
    totals = Counter()
    for table, _, commits in rows:
        totals[table] += commits
    return totals


def _is_since(hour: str) -> ExpressionWrapper[Q]:
    return ExpressionWrapper(Q(completed_at__gte=hour), output_field=BooleanField())


def _totals(tables: Collection[int], starts: Sequence[datetime]) -> QuerySet[Any, Any]:
    commits = _commits(tables, starts).values_list("table")
    rows: QuerySet[Any, Any] = commits.annotate(n=Count("completed_at"))
    return rows


def all_commits_by_hour(tables: Collection[int], starts: Sequence[datetime]) -> list[int]:
    """Commits of all these tables together. One query, whose answer is short."""
    key = (frozenset(tables), starts[0])
    if (ended := _kept.get(key)) is not None:
        return [*ended, *_open_counts(tables, starts[-_OPEN_HOURS:])]
    counts = _counts(tables, starts)
    if sum(ended := counts[:-_OPEN_HOURS]) >= _KEPT_LEAST:
        _keep(_kept, key, ended)
    return counts


_Key = tuple[frozenset[int], datetime]
"""The tables and the oldest hour."""
_Kept = TypeVar("_Kept")
_kept: Final[dict[_Key, list[int]]] = {}
"""Where commits are many, those of hours long past are kept until the hour at hand ends: a fleet
commits hundreds of thousands of times a day, and this is asked for with each look at *Home*.
Threads may count the same twice.
"""
_kept_by_table: Final[dict[_Key, Mapping[int, Hourly]]] = {}
_kept_totals: Final[dict[_Key, Mapping[int, int]]] = {}


def _keep(kept: dict[_Key, _Kept], key: _Key, ended: _Kept) -> None:
    if len(kept) >= _KEPT_MAX:
        kept.clear()
    kept[key] = ended


def _rows(tables: Collection[int], starts: Sequence[datetime]) -> QuerySet[Any, Any]:
    """Return table, hour, commits and rows written, for each hour with a commit."""
    counts_query = _commits(tables, starts).values_list("table", "hour")
    rows: QuerySet[Any, Any] = counts_query.annotate(n=Count("*"), written=Sum("rows"))
    return rows


def _hourly(
    rows: Iterable[Any], starts: Sequence[datetime], ended: Mapping[int, Hourly]
) -> Mapping[int, Hourly]:
    """Add `rows` to copies of what is known of ended hours."""
    places = _places(starts)
    hourly = defaultdict(
        Hourly, {table: Hourly([*known.counts], known.rows) for table, known in ended.items()}
    )
    for table, hour, commits_then, written in rows:
        if (at := places.get(hour)) is not None:
            hourly[table].counts[at] += commits_then
            hourly[table].rows += written or 0
    return hourly


def _counts(tables: Collection[int], starts: Sequence[datetime]) -> list[int]:
    places, counts = _places(starts), [0] * len(starts)
    for hour, commits in _commits(tables, starts).values_list("hour").annotate(n=Count("*")):
        if (at := places.get(hour)) is not None:
            counts[at] += commits
    return counts


def _open_counts(tables: Collection[int], starts: Sequence[datetime]) -> list[int]:
    """Count the commits of a few hours up to now. The database compares instead of sorting."""
    bounds = [_hour(start) for start in [*starts, starts[-1] + timedelta(hours=1)]]
    within = [
        Q(completed_at__gte=since, completed_at__lt=until) for since, until in pairwise(bounds)
    ]
    counts_query = {f"n{at}": Count("completed_at", filter=hour) for at, hour in enumerate(within)}
    return list(_commits(tables, starts).aggregate(**counts_query).values())


def losses_query(
    tables: QuerySet[Table] | Sequence[int], starts: Sequence[datetime]
) -> QuerySet[Any, Any]:
    """Conflicts of these tables since the first of `starts`, counted."""
    since = InstantRecord.objects.filter(
        table=OuterRef("table"),
        completed_at__gt=OuterRef("loser_instant"),
        state="completed",
        writer_name=OuterRef("loser_writer"),
        action__in=DATA_ACTIONS,
    )
    lost = Conflict.objects.filter(table__in=_keys(tables), decided_at__gte=starts[0])
    return (
        lost.annotate(hour=TruncHour("decided_at", tzinfo=UTC), is_over=Exists(since))
        .order_by()
        .values_list("table", "hour", "is_over")
        .annotate(n=Count("pk"), newest=Max("decided_at"))
    )


def losses_by_hour(counts_query: Iterable[Any], starts: Sequence[datetime]) -> Mapping[int, Losses]:
    """Return losses by the key of the table, from the rows of `losses_query`."""
    places = {start: at for at, start in enumerate(starts)}
    losses: defaultdict[int, Losses] = defaultdict(Losses)
    for table, hour, is_over, lost_then, newest in counts_query:
        of_table = losses[table]
        if (at := places.get(hour)) is not None:
            of_table.counts[at] += lost_then
        if not is_over:
            of_table.open += lost_then
            of_table.newest_at = max(newest, of_table.newest_at or newest)
    return losses


def _places(starts: Sequence[datetime]) -> Mapping[str, int]:
    return {_hour(start): at for at, start in enumerate(starts)}


def _hour(start: datetime) -> str:
    return start.strftime("%Y%m%d%H")


def _commits(tables: Collection[int], starts: Sequence[datetime]) -> QuerySet[Any, Any]:
    """Return the commits with their `hour`. Only completed instants have a time of completion, so
    the index on it has all that is counted.
    """
    commits = InstantRecord.objects.filter(
        table__in=_as_parameter(tables),
        completed_at__gte=f"{starts[0]:%Y%m%d%H}0000000",
        action__in=DATA_ACTIONS,
    )
    return commits.annotate(hour=Substr("completed_at", 1, _HOUR_DIGITS)).order_by()


def _as_parameter(tables: Collection[int]) -> Any:
    """Return these keys as one parameter: Django prepares each of a thousand on its own."""
    keys = sorted(tables)
    if connection.vendor == "postgresql":
        return RawSQL("SELECT unnest(%s::bigint[])", [keys])
    return RawSQL("SELECT value FROM json_each(%s)", [str(keys)])


def _keys(tables: QuerySet[Table] | Collection[int]) -> Any:
    return tables.order_by().values("pk") if isinstance(tables, QuerySet) else tables
