"""Reads of the mirror, as plain rows: timeline, one instant, schemas, markers, join status. Never
touches storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from controlplane.errors import InvalidRequest
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.event_times import ahead_s, event_time
from controlplane.mirror.models import (
    HeartbeatRecord,
    InstantRecord,
    MarkerCount,
    SchemaRecord,
    StreamStatus,
)
from controlplane.mirror.stream_lags import event_of, processing_lag_s
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant
from workers.timeline.instant import Action, State

WINDOW_ROWS_MAX = 3000
ACTIONS = tuple(action.value for action in Action)
STATES = tuple(state.value for state in State)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantRow:
    requested_at: InstantTime
    requested_ms: int
    action: str
    state: str
    completed_at: InstantTime | None
    completed_ms: int | None
    writer: str
    stream: str
    operation_type: str
    rows: int | None
    files: int | None
    bytes: int | None
    is_archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWindow:
    rows: list[InstantRow]
    """Newest request first."""
    next_cursor: str | None
    """Hand it back for older rows."""
    total_in_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDetail:
    row: InstantRow
    partitions: int | None
    operation_ref: str
    metadata: Mapping[str, Any]
    markers: list[MarkerRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    name: str
    kind: str
    """added, removed or changed"""
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    instant: InstantTime
    completed_at: InstantTime
    writer: str
    fingerprint: str
    columns: int
    avro: Mapping[str, Any]
    changes: list[FieldChange]
    """Against the schema before it; everything is `added` in the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerRow:
    instant: InstantTime
    kind: str
    count: int
    writer: str
    age_s: float
    sample: list[str]
    is_orphan: bool
    """Left behind by an instant that is not pending any more; the next writer sweeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    stream: str
    columns: list[str]
    rows_with: int
    rows_without: int
    coverage_pct: float | None
    last_event_time: str | None
    """The newest event as its stream claims it: a time where the ordering is one."""
    event_at: datetime | None
    """The same, at the latest when it arrived: where `lag_s` counts from."""
    last_commit_at: InstantTime | None
    lag_s: float | None
    """In event time; None where the ordering is no time."""
    ahead_s: float
    """How far the newest event claims to be ahead of the clock; 0 when it is not."""
    processing_lag_s: float | None
    """From the newest commit that is counted here to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStatus:
    """Everything in it is as of one moment."""

    streams: list[StreamRow]
    total_rows: int
    sampled_at: datetime | None
    commits_since: int
    """Not counted yet."""


def timeline_window(
    table: Table,
    *,
    since: InstantTime | None = None,
    until: InstantTime | None = None,
    actions: Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    archived: bool | None = None,
    limit: int = WINDOW_ROWS_MAX,
    cursor: str | None = None,
) -> TimelineWindow:
    """Instants whose bar touches [since, until], newest request first, `limit` at a time; those of
    the history among them unless `archived` says otherwise.

    Raises InvalidRequest for a cursor that is none.
    """
    window = InstantRecord.objects.filter(table=table)
    if until is not None:
        window = window.filter(requested_at__lte=until)
    if since is not None:
        window = window.filter(Q(completed_at__isnull=True) | Q(completed_at__gte=since))
    if actions is not None:
        window = window.filter(action__in=list(actions))
    if states is not None:
        window = window.filter(state__in=list(states))
    if archived is not None:
        window = window.filter(is_archived=archived)
    limit = max(1, min(limit, WINDOW_ROWS_MAX))
    found = list(
        _after(window, cursor).order_by("-requested_at", "-action").defer("metadata")[: limit + 1]
    )
    page, more = found[:limit], len(found) > limit
    return TimelineWindow(
        rows=[instant_row(record) for record in page],
        next_cursor=f"{page[-1].requested_at}.{page[-1].action}" if more else None,
        total_in_window=window.count() if more or cursor else len(page),
    )


def instant_detail(table: Table, requested_at: InstantTime) -> InstantDetail | None:
    """Everything mirrored of one instant; None when there is none."""
    record = (
        InstantRecord.objects.filter(table=table, requested_at=requested_at)
        .order_by("action")
        .first()
    )
    if record is None:
        return None
    return InstantDetail(
        row=instant_row(record),
        partitions=record.partitions,
        operation_ref=record.operation_ref,
        metadata=record.metadata,
        markers=_marker_rows(table, MarkerCount.objects.filter(table=table, instant=requested_at)),
    )


def schema_history(table: Table) -> list[SchemaRow]:
    """Every schema the table had, newest first, each with what it changed."""
    rows: list[SchemaRow] = []
    before: Mapping[str, Any] = {}
    for record in SchemaRecord.objects.filter(table=table).order_by("completed_at"):
        rows.append(
            SchemaRow(
                instant=record.instant,
                completed_at=record.completed_at,
                writer=record.writer_name,
                fingerprint=record.fingerprint,
                columns=record.columns,
                avro=record.avro,
                changes=field_changes(before, record.avro),
            )
        )
        before = record.avro
    return rows[::-1]


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """Top-level fields that differ between two Avro records, in the order of `after`, removed ones
    last.
    """
    old, new = _field_types(before), _field_types(after)
    changes = [
        FieldChange(
            name=name,
            kind="changed" if name in old else "added",
            before=old.get(name, ""),
            after=kind,
        )
        for name, kind in new.items()
        if old.get(name) != kind
    ]
    gone = [name for name in old if name not in new]
    return changes + [
        FieldChange(name=name, kind="removed", before=old[name], after="") for name in gone
    ]


def pending_markers(table: Table) -> list[MarkerRow]:
    """Markers that wait for their instants to end, and those left behind; oldest instant first."""
    return _marker_rows(table, MarkerCount.objects.filter(table=table))


def join_status(table: Table) -> JoinStatus:
    """How many rows have each stream's columns, as last measured. `total_rows` counts the joined
    rows.
    """
    now = timezone.now()
    later = InstantRecord.objects.filter(
        table=table, state="completed", completed_at__gt=OuterRef("sampled_instant")
    )
    counted = later.order_by().values("table").annotate(count=Count("pk")).values("count")
    measured = StreamStatus.objects.filter(table=table).annotate(later=Subquery(counted))
    records = list(measured.order_by("stream"))
    return JoinStatus(
        streams=[_stream_row(record, now) for record in records],
        total_rows=max((record.rows_with + record.rows_without for record in records), default=0),
        sampled_at=max((record.sampled_at for record in records), default=None),
        commits_since=max((record.later or 0 for record in records), default=0),
    )


def instant_row(record: InstantRecord) -> InstantRow:
    return InstantRow(
        requested_at=record.requested_at,
        requested_ms=parse_instant(record.requested_at),
        action=record.action,
        state=record.state,
        completed_at=record.completed_at,
        completed_ms=None if record.completed_at is None else parse_instant(record.completed_at),
        writer=record.writer_name,
        stream=record.stream,
        operation_type=record.operation_type,
        rows=record.rows,
        files=record.files,
        bytes=record.bytes,
        is_archived=record.is_archived,
    )


def _after(window: QuerySet[InstantRecord], cursor: str | None) -> QuerySet[InstantRecord]:
    if not cursor:
        return window
    requested_at, _, action = cursor.partition(".")
    if not INSTANT_TIME.match(requested_at) or not action.isalpha():
        raise InvalidRequest("this is no cursor", cursor=cursor[:64])
    return window.filter(
        Q(requested_at__lt=requested_at) | Q(requested_at=requested_at, action__lt=action)
    )


def _marker_rows(table: Table, counts: QuerySet[MarkerCount]) -> list[MarkerRow]:
    now_ms = timezone.now().timestamp() * 1000
    beats = HeartbeatRecord.objects.filter(table=table, instant=OuterRef("instant"))
    pending = InstantRecord.objects.filter(table=table, requested_at=OuterRef("instant"))
    counts = counts.annotate(
        writer=Subquery(beats.values("writer_name")[:1]),
        is_pending=Exists(pending.exclude(state="completed")),
    )
    return [
        MarkerRow(
            instant=record.instant,
            kind=record.kind,
            count=record.count,
            writer=record.writer or "",
            age_s=(now_ms - parse_instant(record.instant)) / 1000,
            sample=[str(name) for name in record.sample],
            is_orphan=not record.is_pending,
        )
        for record in counts.order_by("instant", "kind")
    ]


def _stream_row(record: StreamStatus, now: datetime) -> StreamRow:
    total = record.rows_with + record.rows_without
    # A stream that stands still is not measured again, and its lag grows all the same.
    event_at = event_of(record)
    return StreamRow(
        stream=record.stream,
        columns=[str(name) for name in record.columns],
        rows_with=record.rows_with,
        rows_without=record.rows_without,
        coverage_pct=100 * record.rows_with / total if total else None,
        last_event_time=record.last_event_time,
        event_at=event_at,
        last_commit_at=record.last_commit_at,
        lag_s=(now - event_at).total_seconds() if event_at else None,
        ahead_s=ahead_s(event_time(record.last_event_time), now),
        processing_lag_s=processing_lag_s(record.last_commit_at, now),
    )


def _field_types(schema: Mapping[str, Any]) -> dict[str, str]:
    fields = schema.get("fields", [])
    return {
        str(field["name"]): type_text(field["type"])
        for field in fields
        if isinstance(field, Mapping)
    }


def type_text(kind: object) -> str:
    """An Avro type in a few words: `string?` for a nullable string, the logical name where there is
    one.
    """
    if isinstance(kind, list):
        members = [type_text(member) for member in kind if member != "null"]
        return "|".join(members) + ("?" if "null" in kind else "")
    if isinstance(kind, Mapping):
        return str(kind.get("logicalType") or kind.get("name") or kind.get("type"))
    return str(kind)
