"""How complete the joined rows are, per stream: measured now and then on a bounded sample of the
table's file slices, never on a page load.

In a table with column groups a stream is a group, and rows know which they have. Elsewhere it is
what commits name as one: its columns are those that it alone writes, and a row counts as having the
stream when any of them is set, because a stream may deliver nulls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from django.db import transaction
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.events import publish_change
from controlplane.mirror.event_times import bounded, event_time, event_time_text, is_later
from controlplane.mirror.group_rows import GroupCommits, group_commits, units_of
from controlplane.mirror.models import InstantRecord, JoinMeasure, JoinPoint, StreamStatus
from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from workers.clock import InstantTime, SystemClock, parse_instant
from workers.errors import LakehouseError
from workers.options.time_units import TimeUnit
from workers.timeline.metadata import STREAM_COLUMNS_KEY, STREAM_MAX_ORDERING_KEY

log = logging.getLogger(__name__)

AT_MOST_EVERY = timedelta(seconds=8)
REST_PER_WORK = 20
"""A look that took a second is followed by twenty of rest, ..."""
REST_MAX = timedelta(seconds=30)
"""... but rows that moved on are counted again within this time, if counting leaves a quarter."""
REST_PER_LONG_WORK = 3
POINTS_KEPT = 500
COMMITS_LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Stream:
    """What the newest commits say of one stream."""

    name: str
    columns: tuple[str, ...]
    last_commit_at: InstantTime
    max_ordering: str | None
    event_at: datetime | None = None
    """The newest event, at the latest when it arrived; None where the ordering is no time."""
    unit: TimeUnit | None = None


def measure(table: Table, *, now: datetime | None = None) -> bool:
    """Measure again when the table moved on since, at most every few seconds and for a small part
    of the time; whether it did.
    """
    at = now or timezone.now()
    newest = (
        InstantRecord.objects.filter(table=table, state="completed")
        .order_by("-completed_at")
        .values_list("completed_at", flat=True)
        .first()
    ) or ""
    return _is_due(table, newest, at) and measure_now(table, newest, at)


def measure_now(table: Table, newest: InstantTime, at: datetime) -> bool:
    """Measure the table, whose newest commit completed at `newest`; whether anything changed."""
    streams = list(known_streams(table))
    if not streams and not table.groups:
        return bool(StreamStatus.objects.filter(table=table).delete()[0])
    began_s = SystemClock().monotonic_s()
    try:
        sample = _sample(table) if table.groups else _count(table, streams)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        log.warning("streams cannot be measured: table=%s error=%s", table.slug, error)
        return False
    took_ms = int((SystemClock().monotonic_s() - began_s) * 1000)
    statuses = _of_groups(table, sample, at) if table.groups else _of_streams(streams, sample, at)
    with transaction.atomic():
        if Table.objects.select_for_update(no_key=True).filter(pk=table.pk).first() is None:
            return False  # It was unregistered meanwhile.
        _store(table, statuses, sample, at=at, newest=newest, took_ms=took_ms)
        publish_change(table.slug, "streams")
    return True


def _is_due(table: Table, newest: str, at: datetime) -> bool:
    last = JoinMeasure.objects.filter(table=table).defer("sample").first()
    if last is None:
        return True
    return last.sampled_instant != newest and at - last.sampled_at >= rest_after(last.took_ms)


def rest_after(took_ms: int) -> timedelta:
    took = timedelta(milliseconds=took_ms)
    usual = max(AT_MOST_EVERY, REST_PER_WORK * took)
    return min(usual, max(REST_MAX, REST_PER_LONG_WORK * took))


def _store(
    table: Table,
    statuses: Mapping[str, Mapping[str, Any]],
    sample: Mapping[str, Any],
    *,
    at: datetime,
    newest: str,
    took_ms: int,
) -> None:
    StreamStatus.objects.filter(table=table).exclude(stream__in=list(statuses)).delete()
    for stream, columns in statuses.items():
        StreamStatus.objects.update_or_create(
            table=table,
            stream=stream,
            defaults={**columns, "sampled_at": at, "sampled_instant": newest},
        )
    JoinMeasure.objects.update_or_create(
        table=table,
        defaults={
            "sampled_at": at,
            "sampled_instant": newest,
            "took_ms": took_ms,
            "sample": sample,
        },
    )
    if table.groups and sample["keys"]:
        _remember(table, sample, at)


def _remember(table: Table, sample: Mapping[str, Any], at: datetime) -> None:
    keys = sample["keys"]
    JoinPoint.objects.create(
        table=table,
        at=at,
        keys=sample["keys_estimated"],
        complete_pct=100 * sample["complete"] / keys,
        by_group={name: 100 * count / keys for name, count in sample["with_group"].items()},
    )
    kept = JoinPoint.objects.filter(table=table).order_by("-at")
    if (oldest := kept[POINTS_KEPT - 1 : POINTS_KEPT].first()) is not None:
        JoinPoint.objects.filter(table=table, at__lt=oldest.at).delete()


def _sample(table: Table) -> dict[str, Any]:
    """Of a table with column groups, as JSON. Estimates are of all file slices by those read."""
    from workers.read.join_sample import sample_join  # Late: a web process never needs the reader.

    sample = sample_join(engine_table(table))
    scale = sample.slices / sample.slices_read if sample.slices_read else 0.0
    every = set(sample.groups)
    return {
        **asdict(sample),
        "is_exact": sample.is_exact,
        "keys_estimated": round(sample.keys * scale),
        "hidden_estimated": round(sample.hidden * scale),
        "complete": sum(count for names, count in sample.presence if set(names) == every),
        "with_group": {
            group: sum(count for names, count in sample.presence if group in names)
            for group in sample.groups
        },
        "scale": scale,
    }


def _of_groups(table: Table, sample: Mapping[str, Any], at: datetime) -> dict[str, dict[str, Any]]:
    commits = group_commits(table)
    statuses = {}
    for group in table.groups:
        commits_of = commits.get(group["name"]) or GroupCommits(group["name"])
        present = round(sample["with_group"].get(group["name"], 0) * sample["scale"])
        stream = Stream(
            group["name"],
            tuple(group["columns"]),
            commits_of.last_at,
            commits_of.greatest,
            commits_of.event_at,
            commits_of.unit,
        )
        statuses[group["name"]] = _status(stream, present, sample["keys_estimated"], at)
    return statuses


def _count(table: Table, streams: list[Stream]) -> dict[str, Any]:
    """Of a table without groups: rows in the sample, and how many have each stream."""
    from workers.read.rows_sample import sample_rows  # Late: a web process never needs the reader.

    wanted = sorted({column for stream in streams for column in stream.columns})
    sample = sample_rows(engine_table(table), wanted)
    scale = sample.slices / sample.slices_read if sample.slices_read else 0.0
    return {
        "keys": sample.rows.num_rows,
        "keys_estimated": round(sample.rows.num_rows * scale),
        "with_group": {one.name: rows_with_any(sample.rows, one.columns) for one in streams},
        "slices": sample.slices,
        "slices_read": sample.slices_read,
        "is_exact": sample.slices == sample.slices_read,
        "scale": scale,
    }


def _of_streams(
    streams: list[Stream], sample: Mapping[str, Any], at: datetime
) -> dict[str, dict[str, Any]]:
    return {
        one.name: _status(
            one,
            round(sample["with_group"][one.name] * sample["scale"]),
            sample["keys_estimated"],
            at,
        )
        for one in streams
    }


def _status(stream: Stream, present: int, keys: int, at: datetime) -> dict[str, Any]:
    return {
        "columns": list(stream.columns),
        "rows_with": present,
        "rows_without": keys - present,
        "last_event_time": event_time_text(stream.max_ordering, stream.unit),
        "last_commit_at": stream.last_commit_at or None,
        "lag_s": lag_s(stream, at),
    }


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
    events: dict[str, datetime] = {}
    unit = units_of(table).of(table.ordering.split(",")[0])
    for name, completed_at, extra in commits:
        newest.setdefault(name, (completed_at or "", extra or {}))
        ordering = str((extra or {}).get(STREAM_MAX_ORDERING_KEY) or "")
        if ordering and (name not in orderings or is_later(ordering, orderings[name])):
            orderings[name] = ordering
        arrived = datetime.fromtimestamp(parse_instant(completed_at or "") / 1000, tz=UTC)
        event = bounded(event_time(ordering, unit), arrived)
        if event is not None:
            events[name] = max(event, events.get(name, event))
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
        yield Stream(name, own, newest[name][0], orderings.get(name), events.get(name), unit)


def rows_with_any(rows: pa.Table, columns: tuple[str, ...]) -> int:
    """Rows in which any of `columns` is set; columns that no commit brought yet are set nowhere."""
    masks = [pc.is_valid(rows.column(name)) for name in columns if name in rows.column_names]
    if not masks:
        return 0
    combined = masks[0]
    for mask in masks[1:]:
        combined = pc.or_(combined, mask)
    return int(pc.sum(combined.cast(pa.int64())).as_py() or 0)


def lag_s(stream: Stream, now: datetime) -> float | None:
    """From the newest event to now; None where the ordering is no time."""
    return (now - stream.event_at).total_seconds() if stream.event_at is not None else None
