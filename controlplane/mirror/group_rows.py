"""What the newest commits tell of each column group, added up. Two queries at most, no storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from controlplane.mirror.event_times import bounded, event_time, is_later
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.row_access import columns_of
from workers.clock import InstantTime, parse_instant
from workers.errors import InvalidInput
from workers.options.column_groups import DEFAULT_GROUP
from workers.options.time_units import TimeUnit, TimeUnits, time_units

COMMITS_LOOKED_AT = 500
RATE_COMMITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommitRow:
    """What one commit brought to one group."""

    group: str
    instant: InstantTime
    arrived_ms: int
    greatest_ms: int | None
    """Of its events, at the latest when they arrived; None where the ordering value is no time."""
    least_ms: int | None
    rows: int
    late: int
    least: str = ""
    greatest: str = ""
    writer: str = ""
    """The stream that it named, else its writer."""

    def covers(self, age: Sequence[str]) -> bool:
        """Whether an event of this age can have come with it."""
        if not age or not age[0] or not self.greatest:
            return True
        return not (is_later(self.least, age[0]) or is_later(age[0], self.greatest))


@dataclass(slots=True)
class GroupCommits:
    name: str
    last_at: InstantTime = ""
    last_instant: InstantTime = ""
    writer: str = ""
    stream: str = ""
    greatest: str | None = None
    """As it stands in the commit, however far ahead."""
    unit: TimeUnit | None = None
    counts: dict[str, int] = field(default_factory=dict)
    late_key: str = ""
    rows: list[GroupCommitRow] = field(default_factory=list)
    """Newest first."""

    @property
    def event(self) -> datetime | None:
        """The newest one as its stream claims it."""
        return event_time(self.greatest, self.unit)

    @property
    def event_at(self) -> datetime | None:
        """The newest one, at the latest when it arrived."""
        newest = max((one.greatest_ms for one in self.rows if one.greatest_ms), default=None)
        return None if newest is None else datetime.fromtimestamp(newest / 1000, tz=UTC)

    @property
    def rows_per_s(self) -> float | None:
        """Over its last few commits; None with fewer than two."""
        newest = self.rows[:RATE_COMMITS]
        if len(newest) < 2 or newest[0].arrived_ms <= newest[-1].arrived_ms:
            return None
        rows = sum(one.rows for one in newest[:-1])
        return 1000 * rows / (newest[0].arrived_ms - newest[-1].arrived_ms)


def commits_query(table: Table) -> QuerySet[InstantRecord, Any]:
    """Return the query of the newest commits with facts about groups."""
    commits = InstantRecord.objects.filter(
        table=table, state="completed", metadata__has_key="groups"
    ).order_by("-completed_at")
    columns = ("requested_at", "completed_at", "writer_name", "stream", "metadata__groups")
    return commits.values_list(*columns)[:COMMITS_LOOKED_AT]


def group_commits(
    table: Table, commits: QuerySet[InstantRecord, Any] | None = None
) -> dict[str, GroupCommits]:
    """Summarize the newest commits by group. One query, or none where `commits`, which
    `commits_query` made, was read before.
    """
    records = commits_query(table) if commits is None else commits
    units = _units_by_group(table)
    by_group: dict[str, GroupCommits] = {}
    for requested_at, completed_at, writer, stream, groups in records:
        for name, facts in (groups or {}).items():
            group = by_group.setdefault(name, GroupCommits(name, unit=units.get(name)))
            _count(group, facts)
            if facts.get("rows"):
                if not group.last_at:
                    group.last_at, group.last_instant = completed_at or "", requested_at
                    group.writer, group.stream = writer, stream
                row = _row(group, requested_at, completed_at or "", facts)
                group.rows.append(replace(row, writer=stream or writer))
    return by_group


def _count(group: GroupCommits, facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if isinstance(value, int):
            group.counts[name] = group.counts.get(name, 0) + value
    greatest = facts.get("greatest")
    if greatest and (group.greatest is None or is_later(greatest, group.greatest)):
        group.greatest = greatest
    group.late_key = group.late_key or str(facts.get("late_key") or "")


def event_lags(table: Table) -> Callable[[str, str | None, int], float | None]:
    """Return a function of a group or stream, the greatest ordering value of one of its commits and
    the commit's completion in milliseconds. It returns the seconds between the two, or None where
    the ordering value is not a time.
    """
    units = _units_by_group(table)

    def get_lag_s(name: str, greatest: str | None, completed_ms: int) -> float | None:
        event_ms = _ms(greatest, units.get(name, units[DEFAULT_GROUP]), completed_ms)
        return None if event_ms is None else max(0, completed_ms - event_ms) / 1000

    return get_lag_s


def units_of(table: Table) -> TimeUnits:
    """As the table declares them; none where somebody wrote what declares nothing."""
    try:
        return time_units(table.time_units)
    except InvalidInput:
        return TimeUnits()


def ordering_of(table: Table, group: str) -> list[str]:
    """The columns that order a group's events: its own, else the table's."""
    declared: Mapping[str, Any] = next((one for one in table.groups if one["name"] == group), {})
    return [str(name) for name in declared.get("ordering", [])] or columns_of(table.ordering)


def _units_by_group(table: Table) -> dict[str, TimeUnit | None]:
    units = units_of(table)
    ages = {one["name"]: one["ordering"][0] for one in table.groups if one.get("ordering")}
    ages[DEFAULT_GROUP] = table.ordering.split(",")[0]
    return {name: units.of(column) for name, column in ages.items()}


def _row(
    group: GroupCommits, instant: str, completed_at: str, facts: dict[str, Any]
) -> GroupCommitRow:
    arrived_ms = parse_instant(completed_at)
    return GroupCommitRow(
        group=group.name,
        instant=instant,
        arrived_ms=arrived_ms,
        greatest_ms=_ms(facts.get("greatest"), group.unit, arrived_ms),
        least_ms=_ms(facts.get("least"), group.unit, arrived_ms),
        rows=int(facts.get("rows", 0)),
        late=int(facts.get("late", 0)),
        least=str(facts.get("least", "")),
        greatest=str(facts.get("greatest", "")),
    )


def _ms(ordering: str | None, unit: TimeUnit | None, arrived_ms: int) -> int | None:
    arrived = datetime.fromtimestamp(arrived_ms / 1000, tz=UTC)
    event = bounded(event_time(ordering, unit), arrived)
    return int(event.timestamp() * 1000) if event else None
