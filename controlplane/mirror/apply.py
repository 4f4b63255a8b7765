"""From facts to rows, inside the sync's transaction: insert what is new, change what differs,
delete what is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Min

from controlplane.mirror.conflict_facts import ConflictFacts
from controlplane.mirror.facts import (
    Listing,
    MarkerFacts,
)
from controlplane.mirror.models import HeartbeatRecord, MarkerCount, SyncMark
from controlplane.tables.models import Table
from workers.concurrency.heartbeat import Heartbeat
from workers.table import table as engine

GONE_KEPT_FOR = timedelta(minutes=10)
BATCH_ROWS = 500


def describe_table(
    table: Table, opened: engine.Table, lock_provider: str, properties: Mapping[str, Any]
) -> None:
    """What the table's properties say of it, and which lock it is bound to."""
    config = opened.config
    described = {
        "table_type": config.table_type.value,
        "table_version": config.version,
        "record_key": ",".join(config.record_key),
        "partition_by": ",".join(config.partition_by),
        "ordering": ",".join(config.ordering),
        "bucket_count": config.buckets or None,
        "index_type": config.index.value if config.index else "",
        "lock_provider": lock_provider,
        "is_foreign": opened.is_foreign,
        "write_refusal": opened.write_refusal or "",
        "groups": [one.to_json() for one in config.groups.declared] if config.groups else [],
        "time_units": config.time_units[:2000],
        "join_needs": list(config.groups.required) if config.groups else [],
        **properties,
    }
    if any(getattr(table, name) != value for name, value in described.items()):
        Table.objects.filter(pk=table.pk).update(**described)
        for name, value in described.items():
            setattr(table, name, value)


def apply_conflicts(
    table: Table, mark: SyncMark, listing: Listing, conflicts: Sequence[ConflictFacts]
) -> bool:
    """Conflicts belong to `writers`, above the mirror, so they are reached through the table's own
    relation.
    """
    losers = listing.decided | listing.lost
    gone, _ = mark.stored(table.conflicts.all()).exclude(loser_instant__in=losers).delete()
    for conflict in conflicts:
        table.conflicts.create(
            loser_instant=conflict.loser,
            loser_writer=conflict.loser_writer[:200],
            winner_instant=conflict.winner,
            winner_writer=conflict.winner_writer[:200],
            kind=conflict.kind,
            message=conflict.message,
            file_groups=conflict.file_groups,
            overlap=conflict.overlap,
            schemas=conflict.schemas,
            detected=conflict.detected,
            strategy=conflict.strategy[:200],
            wasted_files=conflict.wasted_files,
            wasted_bytes=conflict.wasted_bytes,
            lasted_ms=conflict.lasted_ms,
            details=conflict.details,
            decided_at=moment(conflict.decided_ms),
        )
    return bool(gone or conflicts)


def apply_heartbeats(
    table: Table, mark: SyncMark, beats: Sequence[Heartbeat], now: datetime
) -> bool:
    stored = mark.stored(HeartbeatRecord.objects.filter(table=table))
    records = {record.instant: record for record in stored}
    new, changed = [], []
    for beat in beats:
        columns = _heartbeat_columns(beat)
        record = records.pop(beat.instant, None)
        if record is None:
            new.append(HeartbeatRecord(table=table, instant=beat.instant, last_seen=now, **columns))
        elif record.is_gone or _differs(record, columns):
            for name, value in columns.items():
                setattr(record, name, value)
            record.is_gone = False
            record.last_seen = now
            changed.append(record)
    left = [record for record in records.values() if not record.is_gone]
    for record in left:
        record.is_gone = True
        record.last_seen = now
    HeartbeatRecord.objects.bulk_create(new)
    HeartbeatRecord.objects.bulk_update(
        [*changed, *left],
        ["is_gone", "last_seen", *_heartbeat_columns(beats[0])]
        if beats
        else ["is_gone", "last_seen"],
        batch_size=BATCH_ROWS,
    )
    stored.filter(is_gone=True, last_seen__lt=now - GONE_KEPT_FOR).delete()
    return bool(new or changed or left)


def forgets_heartbeats_at(table: Table, mark: SyncMark) -> datetime | None:
    """When the first of those that are gone is forgotten."""
    gone = mark.stored(HeartbeatRecord.objects.filter(table=table, is_gone=True))
    oldest: datetime | None = gone.aggregate(oldest=Min("last_seen"))["oldest"]
    return None if oldest is None else oldest + GONE_KEPT_FOR


def apply_markers(table: Table, mark: SyncMark, marker_facts: Sequence[MarkerFacts]) -> bool:
    stored = mark.stored(MarkerCount.objects.filter(table=table))
    records = {(one.instant, one.kind): one for one in stored}
    is_changed = False
    for facts in marker_facts:
        record = records.pop((facts.instant, facts.kind), None)
        if record is None:
            record = MarkerCount(table=table, instant=facts.instant, kind=facts.kind)
        elif (record.count, record.sample) == (facts.count, facts.sample):
            continue
        record.count, record.sample = facts.count, facts.sample
        record.save()
        is_changed = True
    if records:
        MarkerCount.objects.filter(pk__in=[record.pk for record in records.values()]).delete()
    return is_changed or bool(records)


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def _heartbeat_columns(beat: Heartbeat) -> dict[str, Any]:
    return {
        "beat_at": moment(beat.beat_ms),
        "interval_ms": beat.interval_ms,
        "tolerable_misses": beat.tolerable_misses,
        "writer_name": (beat.writer or "")[:200],
        "stream": (beat.stream or "")[:100],
        "mode": (beat.mode or "")[:64],
        "operation": (beat.operation or "")[:32],
        "operation_ref": (beat.operation_id or "")[:64],
        "host": (beat.host or "")[:255],
        "pid": beat.pid,
    }


def _differs(record: HeartbeatRecord, columns: dict[str, Any]) -> bool:
    return any(getattr(record, name) != value for name, value in columns.items())
