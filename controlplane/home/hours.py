"""What the tables that somebody sees did in each of the last hours. A query for commits, one for
conflicts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Exists, Max, OuterRef, QuerySet, Sum
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
_KEPT_LEAST: Final = 20_000
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


def commits_by_hour(
    tables: QuerySet[Table] | Sequence[int], starts: Sequence[datetime]
) -> Mapping[int, Hourly]:
    """By the key of a table that committed something. One query."""
    places = _places(starts)
    counted = (
        _commits(tables, starts)
        .values_list("table", "hour")
        .annotate(n=Count("*"), written=Sum("rows"))
    )
    hourly: defaultdict[int, Hourly] = defaultdict(Hourly)
    for table, hour, commits_then, rows in counted:
        if (at := places.get(hour)) is not None:
            hourly[table].counts[at] += commits_then
            hourly[table].rows += rows or 0
    return hourly


def all_commits_by_hour(tables: Collection[int], starts: Sequence[datetime]) -> list[int]:
    """Commits of all these tables together. One query, whose answer has a row for each hour.

    Where they are many, those of hours long past are kept until the hour at hand ends: a fleet
    commits hundreds of thousands of times a day, and this is asked for with each look at *Home*.
    """
    key = (frozenset(tables), starts[0])
    if (ended := _kept.get(key)) is not None:
        return [*ended, *_counts(tables, starts[-_OPEN_HOURS:])]
    counts = _counts(tables, starts)
    if sum(ended := counts[:-_OPEN_HOURS]) >= _KEPT_LEAST:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        _kept[key] = ended
    return counts


_kept: Final[dict[tuple[frozenset[int], datetime], list[int]]] = {}
"""By the tables and the oldest hour. Threads may count the same twice."""


def _counts(tables: Collection[int], starts: Sequence[datetime]) -> list[int]:
    places, counts = _places(starts), [0] * len(starts)
    for hour, commits in _commits(tables, starts).values_list("hour").annotate(n=Count("*")):
        if (at := places.get(hour)) is not None:
            counts[at] += commits
    return counts


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


def losses_by_hour(counted: Iterable[Any], starts: Sequence[datetime]) -> Mapping[int, Losses]:
    """By the key of a table with a conflict, of what `losses_query` counted."""
    places = {start: at for at, start in enumerate(starts)}
    losses: defaultdict[int, Losses] = defaultdict(Losses)
    for table, hour, is_over, lost_then, newest in counted:
        of_table = losses[table]
        if (at := places.get(hour)) is not None:
            of_table.counts[at] += lost_then
        if not is_over:
            of_table.open += lost_then
            of_table.newest_at = max(newest, of_table.newest_at or newest)
    return losses


def _places(starts: Sequence[datetime]) -> Mapping[str, int]:
    return {start.strftime("%Y%m%d%H"): at for at, start in enumerate(starts)}


def _commits(
    tables: QuerySet[Table] | Collection[int], starts: Sequence[datetime]
) -> QuerySet[Any, Any]:
    """With their `hour`. Only what is completed has a time of its completion, so that the index on
    it says all that is counted.
    """
    commits = InstantRecord.objects.filter(
        table__in=_keys(tables),
        completed_at__gte=f"{starts[0]:%Y%m%d%H}0000000",
        action__in=DATA_ACTIONS,
    )
    return commits.annotate(hour=Substr("completed_at", 1, _HOUR_DIGITS)).order_by()


def _keys(tables: QuerySet[Table] | Collection[int]) -> Any:
    return tables.order_by().values("pk") if isinstance(tables, QuerySet) else tables
