"""Join status of one table as plain rows: its streams, which keys have which, what is waited for.
From the mirror and from the newest sample; never touches storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.mirror.event_times import ahead_s, event_time, event_time_text
from controlplane.mirror.group_rows import (
    GroupCommitRow,
    GroupCommits,
    commits_query,
    group_commits,
)
from controlplane.mirror.models import (
    FileGroupRecord,
    InstantRecord,
    JoinMeasure,
    JoinPoint,
    StreamStatus,
)
from controlplane.mirror.queries.files import BacklogQueries, backlog, backlog_queries
from controlplane.mirror.queries.table_services import PendingPlanRow, pending_plans, plans_query
from controlplane.mirror.stream_lags import event_of, processing_lag_s
from controlplane.mirror.stream_sight import seen_commit, seen_coverage, seen_group, seen_keys
from controlplane.read_together import read_together
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess
from workers.clock import InstantTime

POINTS_SHOWN = 200
COMMITS_SHOWN = 400
LOG_GROUPS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One stream: a column group, or in a table without groups what commits name as one."""

    name: str
    is_group: bool
    columns: list[str]
    ordering: list[str]
    rules: list[str]
    """What differs from the defaults, as declared."""
    is_needed: bool
    """The table's join hides rows without it."""
    last_event: str | None
    """A time where the ordering value is one."""
    lag_s: float | None
    """From the newest event to now, in event time; None where the ordering is no time. One that is
    far ahead of its arrival counts as of its arrival.
    """
    event_at: datetime | None
    """Where `lag_s` counts from."""
    ahead_s: float
    """How far the newest event claims to be ahead of the clock; 0 when it is not."""
    processing_lag_s: float | None
    """From the newest commit to now."""
    behind_s: float | None
    """From its newest event to that of the most advanced stream."""
    last_commit_at: InstantTime | None
    last_instant: InstantTime | None
    last_writer: str
    rows_per_s: float | None
    """Over its last ten commits."""
    rows: int
    """Brought by the newest 500 commits, as are the following."""
    deletes: int
    late: int
    """Versions that came after a newer one, as far as they were merged by now."""
    late_key: str
    tied: int
    nulls: int
    """Cells that said nothing, under null_mode=keep."""
    skipped: int
    """Rows that named the stream's columns without an ordering value."""
    tombstones: int
    """Deletes remembered for keys of the sample, scaled up."""
    rows_with: int
    rows_without: int
    coverage_pct: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceRow:
    groups: list[str]
    lacks: list[str]
    keys: int
    """Scaled up where only a part was read."""
    share_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKey:
    key: str
    partition: str
    waits_for: list[str]
    event_at: datetime | None
    commit: InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageColumn:
    group: str
    column: str
    share_pct: list[float]
    """By bucket; 0 where there are no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageMap:
    by: str
    """event or commit: what time rows stand at."""
    starts_ms: list[int]
    width_ms: int
    rows: list[int]
    columns: list[CoverageColumn]
    columns_left_out: int
    rows_beyond: int
    """Of the last bucket: rows whose time is more than five minutes ahead of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletenessPoint:
    at: datetime
    keys: int
    complete_pct: float
    by_group: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroupRow:
    """Logs that wait to be merged into one file group."""

    partition: str
    file_id: str
    log_files: int
    log_bytes: int
    oldest_at: InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompacted:
    log_files: int
    log_bytes: int
    file_groups: int
    """Those with logs."""
    delta_commits: int
    oldest_at: InstantTime | None
    largest: list[LogGroupRow]
    pending: list[PendingPlanRow]
    """Compactions that are planned and not carried out."""
    left_out: int
    """File groups that `largest` does not compare, because they have no row of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsBoard:
    streams: list[GroupRow]
    join: str
    """full, or the streams without which a row is hidden."""
    sampled_at: datetime | None
    is_exact: bool
    """Every file slice was read; otherwise counts are scaled up from those that were."""
    slices: int
    slices_read: int
    keys: int
    hidden: int
    complete_pct: float | None
    presence: list[PresenceRow]
    oldest: list[WaitingKey]
    coverage: CoverageMap | None
    points: list[CompletenessPoint]
    """Oldest first."""
    uncompacted: Uncompacted


@dataclass(frozen=True, slots=True)
class _Known:
    table: Table
    access: RowAccess
    commits: Mapping[str, GroupCommits] = field(default_factory=dict)
    statuses: Mapping[str, StreamStatus] = field(default_factory=dict)
    measure: JoinMeasure | None = None

    @property
    def sample(self) -> Mapping[str, Any]:
        return self.measure.sample if self.measure else {}


class BoardQueries(NamedTuple):
    """What `streams_board` reads first."""

    commits: QuerySet[InstantRecord, Any]
    statuses: QuerySet[StreamStatus]
    measure: QuerySet[JoinMeasure]
    points: QuerySet[JoinPoint]
    largest: QuerySet[FileGroupRecord]
    plans: QuerySet[InstantRecord]
    backlog: BacklogQueries

    def all(self) -> tuple[QuerySet[Any, Any], ...]:
        return (*self[:-1], *self.backlog)


def board_queries(table: Table) -> BoardQueries:
    """Build the queries, for a page that reads them together with others."""
    logs = FileGroupRecord.objects.filter(table=table, log_files__gt=0, is_replaced=False)
    return BoardQueries(
        commits_query(table),
        StreamStatus.objects.filter(table=table).order_by("stream"),
        JoinMeasure.objects.filter(table=table),
        JoinPoint.objects.filter(table=table).order_by("-at")[:POINTS_SHOWN],
        logs.order_by("-log_bytes")[:LOG_GROUPS_SHOWN],
        plans_query(table),
        backlog_queries(table),
    )


def streams_board(
    table: Table,
    access: RowAccess,
    now: datetime | None = None,
    queries: BoardQueries | None = None,
) -> StreamsBoard:
    """Build the board of a table's streams. Two queries, one where `queries` were read before. The
    audit records who saw its keys.
    """
    queries = queries or board_queries(table)
    read_together(*queries.all())
    known = _Known(
        table,
        access,
        group_commits(table, queries.commits) if table.groups else {},
        {status.stream: status for status in queries.statuses},
        next(iter(queries.measure), None),
    )
    sample = known.sample
    keys = int(sample.get("keys", 0))
    is_joined = bool(table.groups) and keys > 0
    streams = _streams(known, now or timezone.now())
    late_keys = sum(bool(one.late_key) for one in streams)
    oldest = [_waiting(one) for one in sample.get("oldest", [])]
    return StreamsBoard(
        streams=streams,
        join="full" if not table.join_needs else "with " + ", ".join(table.join_needs),
        sampled_at=known.measure.sampled_at if known.measure else None,
        is_exact=bool(sample.get("is_exact", False)),
        slices=int(sample.get("slices", 0)),
        slices_read=int(sample.get("slices_read", 0)),
        keys=int(sample.get("keys_estimated", 0)),
        hidden=int(sample.get("hidden_estimated", 0)),
        complete_pct=100 * sample["complete"] / keys if is_joined else None,
        presence=_presence(sample) if is_joined else [],
        oldest=seen_keys(table, access, oldest, late_keys=late_keys),
        coverage=seen_coverage(table, access, _coverage(sample.get("coverage"))),
        points=_points(queries),
        uncompacted=_uncompacted(table, queries),
    )


def commit_rows(
    table: Table, access: RowAccess, commits: QuerySet[InstantRecord, Any] | None = None
) -> list[GroupCommitRow]:
    """List what the newest commits wrote to each group, oldest first. `commits` as `group_commits`
    takes them.
    """
    every = [row for group in group_commits(table, commits).values() for row in group.rows]
    rows = [seen_commit(table, access, row) for row in every]
    return sorted(rows, key=lambda row: row.arrived_ms)[-COMMITS_SHOWN:]


def _streams(known: _Known, now: datetime) -> list[GroupRow]:
    declared = {one["name"]: one for one in known.table.groups}
    names = list(declared) or list(known.statuses)
    newest = {name: _newest_event(known, name) for name in names}
    ahead = max((at for at in newest.values() if at is not None), default=None)
    return [
        seen_group(
            known.table,
            known.access,
            _stream(known, name, declared.get(name), newest[name], ahead, now),
        )
        for name in names
    ]


def _newest_event(known: _Known, name: str) -> datetime | None:
    """At the latest when it arrived."""
    if commits := known.commits.get(name):
        return commits.event_at
    status = known.statuses.get(name)
    return event_of(status) if status else None


def _stream(
    known: _Known,
    name: str,
    declared: Mapping[str, Any] | None,
    event: datetime | None,
    ahead: datetime | None,
    now: datetime,
) -> GroupRow:
    commits = known.commits.get(name) or GroupCommits(name)
    status = known.statuses.get(name)
    last_at = commits.last_at or (status.last_commit_at if status else None) or None
    total = status.rows_with + status.rows_without if status else 0
    counts = commits.counts
    measured = status.last_event_time if status else None
    last_event = event_time_text(commits.greatest, commits.unit) or measured
    return GroupRow(
        name=name,
        is_group=declared is not None,
        columns=[str(one) for one in (declared or {}).get("columns", status and status.columns)],
        ordering=[str(one) for one in (declared or {}).get("ordering", [])],
        rules=_rules(declared or {}),
        is_needed=name in known.table.join_needs,
        last_event=last_event,
        lag_s=(now - event).total_seconds() if event else None,
        event_at=event,
        ahead_s=ahead_s(event_time(last_event), now),
        processing_lag_s=processing_lag_s(last_at, now),
        behind_s=(ahead - event).total_seconds() if ahead and event else None,
        last_commit_at=last_at,
        last_instant=commits.last_instant or None,
        last_writer=commits.stream or commits.writer,
        rows_per_s=commits.rows_per_s,
        rows=counts.get("rows", 0),
        deletes=counts.get("deletes", 0),
        late=counts.get("late", 0),
        late_key=commits.late_key,
        tied=counts.get("tied", 0),
        nulls=counts.get("nulls", 0),
        skipped=counts.get("skipped", 0),
        tombstones=_scaled(known.sample.get("tombstones", {}).get(name, 0), known.sample),
        rows_with=status.rows_with if status else 0,
        rows_without=status.rows_without if status else 0,
        coverage_pct=100 * status.rows_with / total if status and total else None,
    )


_DEFAULTS = {
    "on_late": "ignore",
    "null_mode": "overwrite",
    "delete": "group",
    "granularity": "group",
}


def _rules(declared: Mapping[str, Any]) -> list[str]:
    rules = [
        f"{key}={declared[key]}"
        for key, usual in _DEFAULTS.items()
        if declared.get(key, usual) != usual
    ]
    return rules + [f"{kind} of {name}" for name, kind in declared.get("aggregates", {}).items()]


def _scaled(count: int, sample: Mapping[str, Any]) -> int:
    return round(count * float(sample.get("scale", 0.0)))


def _presence(sample: Mapping[str, Any]) -> list[PresenceRow]:
    every = sample["groups"]
    return [
        PresenceRow(
            groups=list(names),
            lacks=[one for one in every if one not in names],
            keys=_scaled(count, sample),
            share_pct=100 * count / sample["keys"],
        )
        for names, count in sample["presence"]
    ]


def _waiting(waiting: Mapping[str, Any]) -> WaitingKey:
    at = waiting["event_ms"]
    return WaitingKey(
        key=waiting["key"],
        partition=waiting["partition"],
        waits_for=list(waiting["waits_for"]),
        event_at=None if at is None else datetime.fromtimestamp(at / 1000, tz=UTC),
        commit=waiting["commit"],
    )


def _coverage(coverage: Mapping[str, Any] | None) -> CoverageMap | None:
    if not coverage:
        return None
    rows = coverage["rows"]
    return CoverageMap(
        by=coverage["by"],
        starts_ms=[coverage["first_ms"] + at * coverage["width_ms"] for at in range(len(rows))],
        width_ms=coverage["width_ms"],
        rows=rows,
        columns=[
            CoverageColumn(
                group=one["group"],
                column=one["column"],
                share_pct=[
                    100 * count / of if of else 0.0
                    for count, of in zip(one["rows_set"], rows, strict=True)
                ],
            )
            for one in coverage["columns"]
        ],
        columns_left_out=coverage["columns_left_out"],
        rows_beyond=int(coverage.get("rows_beyond", 0)),
    )


def _points(queries: BoardQueries) -> list[CompletenessPoint]:
    return [
        CompletenessPoint(
            at=one.at, keys=one.keys, complete_pct=one.complete_pct, by_group=one.by_group
        )
        for one in reversed(queries.points)
    ]


def _uncompacted(table: Table, queries: BoardQueries) -> Uncompacted:
    waits = backlog(table, queries.backlog)
    return Uncompacted(
        log_files=waits.log_files,
        log_bytes=waits.log_bytes,
        file_groups=waits.file_groups_with_logs,
        delta_commits=waits.delta_commits,
        oldest_at=waits.oldest_log_at,
        largest=[_log_group(record) for record in queries.largest],
        left_out=waits.left_out,
        pending=[
            plan for plan in pending_plans(table, queries.plans) if plan.action == "compaction"
        ],
    )


def _log_group(record: FileGroupRecord) -> LogGroupRow:
    latest = record.history[0] if record.history else {}
    logs = [one for one in latest.get("instants", []) if one != record.base_instant]
    return LogGroupRow(
        partition=record.partition,
        file_id=record.file_id,
        log_files=record.log_files,
        log_bytes=record.log_bytes,
        oldest_at=min(logs, default=record.last_instant),
    )
