"""Reads of the mirror, as plain rows: one instant, schemas, markers, join status. Never touches
storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.utils import timezone

from controlplane.mirror.commit_sight import seen_metadata
from controlplane.mirror.event_times import ahead_s, event_time
from controlplane.mirror.models import (
    HeartbeatRecord,
    InstantRecord,
    MarkerCount,
    SchemaRecord,
    StreamStatus,
    UndoneRecord,
)
from controlplane.mirror.queries.phases import PhaseRow, phases_of, undone_phases
from controlplane.mirror.stream_lags import event_of, processing_lag_s
from controlplane.mirror.stream_sight import seen_stream
from controlplane.mirror.timeline_rows import InstantRow, instant_row, undone_row
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess
from workers.clock import InstantTime, parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDetail:
    row: InstantRow
    partitions: int | None
    operation_ref: str
    phases: list[PhaseRow]
    """In order, those of which nothing is known among them."""
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


def instant_detail(
    table: Table, access: RowAccess, requested_at: InstantTime
) -> InstantDetail | None:
    """Everything mirrored of one instant, be it taken back; None when there is none. A key that it
    shows is a look at rows that is in the audit.
    """
    record = (
        InstantRecord.objects.filter(table=table, requested_at=requested_at)
        .order_by("action")
        .first()
    )
    if record is None:
        return _undone_detail(table, requested_at)
    return InstantDetail(
        row=instant_row(record),
        partitions=record.partitions,
        operation_ref=record.operation_ref,
        phases=phases_of(record),
        metadata=seen_metadata(table, access, _without_phases(record.metadata)),
        markers=_marker_rows(
            _marker_counts(table, MarkerCount.objects.filter(table=table, instant=requested_at))
        ),
    )


def _without_phases(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: fact for name, fact in metadata.items() if name != "phases"}


def _undone_detail(table: Table, requested_at: InstantTime) -> InstantDetail | None:
    row = undone_row(table, requested_at)
    if row is None:
        return None
    record = UndoneRecord.objects.get(table=table, requested_at=requested_at)
    markers = MarkerCount.objects.filter(table=table, instant=requested_at)
    return InstantDetail(
        row=row,
        partitions=None,
        operation_ref=record.operation_ref,
        phases=undone_phases(requested_at),
        metadata={},
        markers=_marker_rows(_marker_counts(table, markers)),
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


def markers_query(table: Table) -> QuerySet[MarkerCount]:
    """Return the query of the markers of all instants."""
    return _marker_counts(table, MarkerCount.objects.filter(table=table))


def pending_markers(table: Table, counts: QuerySet[MarkerCount] | None = None) -> list[MarkerRow]:
    """List the markers of pending instants and orphaned ones; oldest instant first. One query, or
    none where `counts`, which `markers_query` made, was read before.
    """
    return _marker_rows(markers_query(table) if counts is None else counts)


def statuses_query(table: Table) -> QuerySet[StreamStatus]:
    """Return the query of the streams as last measured, with how many commits came since."""
    later = InstantRecord.objects.filter(
        table=table, state="completed", completed_at__gt=OuterRef("sampled_instant")
    )
    counted = later.order_by().values("table").annotate(count=Count("pk")).values("count")
    measured = StreamStatus.objects.filter(table=table).annotate(later=Subquery(counted))
    return measured.order_by("stream")


def join_status(
    table: Table, access: RowAccess, statuses: QuerySet[StreamStatus] | None = None
) -> JoinStatus:
    """Count the rows that have each stream's columns, as last measured. `total_rows` counts the
    joined rows. One query, or none where `statuses`, which `statuses_query` made, was read before.
    """
    now = timezone.now()
    records = list(statuses_query(table) if statuses is None else statuses)
    return JoinStatus(
        streams=[seen_stream(table, access, _stream_row(record, now)) for record in records],
        total_rows=max((record.rows_with + record.rows_without for record in records), default=0),
        sampled_at=max((record.sampled_at for record in records), default=None),
        commits_since=max((vars(record)["later"] or 0 for record in records), default=0),
    )


def _marker_counts(table: Table, counts: QuerySet[MarkerCount]) -> QuerySet[MarkerCount]:
    beats = HeartbeatRecord.objects.filter(table=table, instant=OuterRef("instant"))
    pending = InstantRecord.objects.filter(table=table, requested_at=OuterRef("instant"))
    annotated = counts.annotate(
        writer=Subquery(beats.values("writer_name")[:1]),
        is_pending=Exists(pending.exclude(state="completed")),
    )
    return annotated.order_by("instant", "kind")


def _marker_rows(counts: QuerySet[MarkerCount]) -> list[MarkerRow]:
    now_ms = timezone.now().timestamp() * 1000
    return [
        MarkerRow(
            instant=record.instant,
            kind=record.kind,
            count=record.count,
            writer=vars(record)["writer"] or "",
            age_s=(now_ms - parse_instant(record.instant)) / 1000,
            sample=[str(name) for name in record.sample],
            is_orphan=not vars(record)["is_pending"],
        )
        for record in counts
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
