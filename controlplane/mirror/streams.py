"""How complete the joined rows are, per stream: measured by reading the table now and then, never
on a page load.

A stream is what commits name as one. Its columns are those that it alone writes; a row counts as
having the stream when any of them is set, because a stream may deliver nulls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from django.db import transaction
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.events import publish_change
from controlplane.mirror.models import InstantRecord, StreamStatus
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant
from workers.errors import LakehouseError
from workers.timeline.metadata import STREAM_COLUMNS_KEY, STREAM_MAX_ORDERING_KEY

log = logging.getLogger(__name__)

AT_MOST_EVERY = timedelta(seconds=8)
COMMITS_LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Stream:
    """What the newest commits say of one stream."""

    name: str
    columns: tuple[str, ...]
    last_commit_at: InstantTime
    max_ordering: str | None


def measure(table: Table, *, now: datetime | None = None) -> bool:
    """Measure again when the table moved on since, at most every few seconds; whether it did."""
    at = now or timezone.now()
    newest = (
        InstantRecord.objects.filter(table=table, state="completed")
        .order_by("-completed_at")
        .values_list("completed_at", flat=True)
        .first()
    )
    streams = list(known_streams(table))
    stored = list(StreamStatus.objects.filter(table=table))
    if not streams:
        return bool(StreamStatus.objects.filter(table=table).delete()[0])
    if stored and (
        at - max(row.sampled_at for row in stored) < AT_MOST_EVERY
        or all(row.sampled_instant == newest for row in stored)
    ):
        return False
    try:
        rows = _read(table, streams)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        log.warning("streams cannot be measured: table=%s error=%s", table.slug, error)
        return False
    with transaction.atomic():
        StreamStatus.objects.filter(table=table).exclude(
            stream__in=[stream.name for stream in streams]
        ).delete()
        for stream in streams:
            present = rows_with_any(rows, stream.columns)
            StreamStatus.objects.update_or_create(
                table=table,
                stream=stream.name,
                defaults={
                    "columns": list(stream.columns),
                    "rows_with": present,
                    "rows_without": rows.num_rows - present,
                    "last_event_time": event_time_text(stream.max_ordering),
                    "last_commit_at": stream.last_commit_at,
                    "lag_s": lag_s(stream, at),
                    "sampled_at": at,
                    "sampled_instant": newest or "",
                },
            )
        publish_change(table.slug, "streams")
    return True


def known_streams(table: Table) -> Iterator[Stream]:
    """Streams by name, from commit metadata in the mirror; columns that several streams write
    belong to none.
    """
    commits = (
        InstantRecord.objects.filter(table=table, state="completed")
        .exclude(stream="")
        .order_by("-completed_at")
        .values_list("stream", "completed_at", "metadata__extra")[:COMMITS_LOOKED_AT]
    )
    newest: dict[str, tuple[InstantTime, Mapping[str, Any]]] = {}
    orderings: dict[str, str] = {}
    for name, completed_at, extra in commits:
        newest.setdefault(name, (completed_at or "", extra or {}))
        ordering = str((extra or {}).get(STREAM_MAX_ORDERING_KEY) or "")
        if ordering and (name not in orderings or _later(ordering, orderings[name])):
            orderings[name] = ordering
    written = {
        name: [part for part in str(extra.get(STREAM_COLUMNS_KEY) or "").split(",") if part]
        for name, (_, extra) in newest.items()
    }
    described = {
        *table.record_key.split(","),
        *table.partition_by.split(","),
        *table.ordering.split(","),
    }
    for name in sorted(newest):
        others = {
            column for other, columns in written.items() if other != name for column in columns
        }
        own = tuple(column for column in written[name] if column not in others | described)
        yield Stream(name, own, newest[name][0], orderings.get(name))


def rows_with_any(rows: pa.Table, columns: tuple[str, ...]) -> int:
    """Rows in which any of `columns` is set; columns that no commit brought yet are set nowhere."""
    masks = [pc.is_valid(rows.column(name)) for name in columns if name in rows.column_names]
    if not masks:
        return 0
    combined = masks[0]
    for mask in masks[1:]:
        combined = pc.or_(combined, mask)
    return int(pc.sum(combined.cast(pa.int64())).as_py() or 0)


def event_time_text(ordering: str | None) -> str | None:
    """An ordering value as a person reads it: a time where it can be one, else as it stands."""
    found = event_time(ordering)
    return found.isoformat(timespec="milliseconds") if found else ordering


def event_time(ordering: str | None) -> datetime | None:
    """Epoch seconds, milliseconds or microseconds by their size; ISO text; else None."""
    if not ordering:
        return None
    try:
        number = float(ordering)
    except ValueError:
        return _iso(ordering)
    for unit in (1, 1_000, 1_000_000):
        if 1e8 <= number / unit < 1e10:
            return datetime.fromtimestamp(number / unit, tz=UTC)
    return None


def lag_s(stream: Stream, now: datetime) -> float | None:
    """From the newest event to now; without an event time, from the newest commit."""
    newest = event_time(stream.max_ordering)
    if newest is not None:
        return (now - newest).total_seconds()
    if not stream.last_commit_at:
        return None
    return now.timestamp() - parse_instant(stream.last_commit_at) / 1000


def _later(one: str, other: str) -> bool:
    try:
        return float(one) > float(other)
    except ValueError:
        return one > other


def _iso(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _read(table: Table, streams: list[Stream]) -> pa.Table:
    from workers.lakehouse import open_table  # Late: a web process never needs the reader.

    rows: pa.Table = open_table(checked_location(table.location)).read()
    wanted = {column for stream in streams for column in stream.columns}
    return rows.select([name for name in rows.column_names if name in wanted])
