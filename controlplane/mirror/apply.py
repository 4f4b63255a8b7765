"""From facts to rows, inside the sync's transaction: insert what is new, change what differs,
delete what is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Min

from controlplane.mirror.archive_facts import ArchiveFacts
from controlplane.mirror.conflict_facts import ConflictFacts
from controlplane.mirror.facts import (
    InstantFacts,
    Listing,
    MarkerFacts,
    instant_facts,
    key_of,
    normal_schema,
)
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, MarkerCount, SchemaRecord
from controlplane.tables.models import Table
from workers.concurrency.heartbeat import Heartbeat
from workers.errors import MalformedTable
from workers.table import table as engine
from workers.timeline.instant import Action, CompletedInstant, State

GONE_KEPT_FOR = timedelta(minutes=10)
BATCH_ROWS = 500
_INSTANT_COLUMNS = (
    "state",
    "completed_at",
    "operation_type",
    "writer_name",
    "stream",
    "sink",
    "rows",
    "files",
    "bytes",
    "partitions",
    "operation_ref",
    "metadata",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedInstants:
    is_changed: bool
    """Whether any row changed."""
    needs_schemas: bool
    """Whether the schema history must be made again."""
    gone: list[InstantRecord]
    """Rows that left the timeline and did not move into its history."""


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


def apply_instants(
    table: Table, listing: Listing, read: Sequence[InstantFacts], archive: ArchiveFacts
) -> AppliedInstants:
    records = {
        (record.requested_at, record.action): record
        for record in InstantRecord.objects.filter(table=table, is_archived=False).defer("metadata")
    }
    stay = {key_of(one) for one in listing.timeline.instants} | archive.moved
    gone = [record for key, record in records.items() if key not in stay]
    needs_schemas = any(
        record.state == State.COMPLETED.value for key, record in records.items() if key not in stay
    )
    newest = SchemaRecord.objects.filter(table=table).order_by("-completed_at").first()
    new, changed = [], []
    for facts in read:
        key = key_of(facts.instant)
        columns = _instant_columns(facts)
        record = records.get(key)
        if record is None:
            new.append(InstantRecord(table=table, requested_at=key[0], action=key[1], **columns))
        elif _differs(record, columns):
            for name, value in columns.items():
                setattr(record, name, value)
            changed.append(record)
        else:
            continue
        needs_schemas |= _may_change_schemas(facts, newest)
    left = [record.pk for record in gone]
    for start in range(0, len(left), BATCH_ROWS):
        InstantRecord.objects.filter(pk__in=left[start : start + BATCH_ROWS]).delete()
    InstantRecord.objects.bulk_create(new, batch_size=BATCH_ROWS)
    InstantRecord.objects.bulk_update(changed, _INSTANT_COLUMNS, batch_size=BATCH_ROWS)
    moved = [records[key].pk for key in sorted(archive.moved) if key in records]
    for start in range(0, len(moved), BATCH_ROWS):
        batch = moved[start : start + BATCH_ROWS]
        InstantRecord.objects.filter(pk__in=batch).update(is_archived=True)
    has_moved, has_moved_schemas = _apply_archive(table, archive, newest)
    return AppliedInstants(
        is_changed=bool(gone or new or changed) or has_moved,
        needs_schemas=needs_schemas or has_moved_schemas,
        gone=gone,
    )


def _apply_archive(
    table: Table, archive: ArchiveFacts, newest: SchemaRecord | None
) -> tuple[bool, bool]:
    for key in archive.gone:
        InstantRecord.objects.filter(table=table, requested_at=key[0], action=key[1]).delete()
    InstantRecord.objects.bulk_create(
        [
            InstantRecord(
                table=table,
                requested_at=one.instant.requested_at,
                action=one.instant.action.value,
                is_archived=True,
                **_instant_columns(one) | _known_completion(one),
            )
            for one in archive.new
        ],
        batch_size=BATCH_ROWS,
    )
    is_changed = bool(archive.moved or archive.gone or archive.new)
    needs_schemas = bool(archive.gone) or any(
        _may_change_schemas(one, newest) for one in archive.new
    )
    return is_changed, needs_schemas


def _known_completion(facts: InstantFacts) -> dict[str, str]:
    """Foreign archives may lack it; request order is all there is then."""
    return {"completed_at": facts.instant.completed_at or facts.instant.requested_at}


def _may_change_schemas(facts: InstantFacts, newest: SchemaRecord | None) -> bool:
    """A later commit with the newest schema again changes nothing, and is what nearly all are."""
    if facts.schema_json is None:
        return False
    is_later = newest is not None and (facts.instant.completed_at or "") > newest.completed_at
    fingerprint = _fingerprint(facts).get("schema_fingerprint")
    return not is_later or newest is None or fingerprint != newest.fingerprint


def rebuild_schemas(table: Table, opened: engine.Table) -> None:
    """The chain of schemas in completion order, from the fingerprints that the instants carry."""
    chain: list[tuple[str, str]] = []
    writers: dict[str, tuple[str, str, str]] = {}
    rows = (
        InstantRecord.objects.filter(
            table=table,
            state=State.COMPLETED.value,
            metadata__has_key="schema_fingerprint",
        )
        .order_by("completed_at", "requested_at")
        .values_list(
            "requested_at", "action", "completed_at", "writer_name", "metadata__schema_fingerprint"
        )
    )
    for requested_at, action, completed_at, writer, fingerprint in rows.iterator():
        if fingerprint and (not chain or chain[-1][1] != fingerprint):
            chain.append((requested_at, fingerprint))
            writers[requested_at] = (action, completed_at or "", writer)
    stored = dict(SchemaRecord.objects.filter(table=table).values_list("instant", "fingerprint"))
    if stored == dict(chain):
        return
    gone = [instant for instant in stored if dict(chain).get(instant) != stored[instant]]
    SchemaRecord.objects.filter(table=table, instant__in=gone).delete()
    for instant, fingerprint in chain:
        if stored.get(instant) == fingerprint:
            continue
        action, completed_at, writer = writers[instant]
        facts = instant_facts(
            opened, CompletedInstant(instant, Action(action), State.COMPLETED, completed_at), None
        )
        if facts is None or facts.schema_json is None:
            continue  # It went away since; the listing that says so is already on its way.
        avro, _ = normal_schema(facts.schema_json)
        SchemaRecord.objects.create(
            table=table,
            instant=instant,
            completed_at=completed_at,
            writer_name=writer,
            avro=avro,
            fingerprint=fingerprint,
            columns=len(avro["fields"]),
        )


def apply_conflicts(table: Table, listing: Listing, conflicts: Sequence[ConflictFacts]) -> bool:
    """Conflicts belong to `writers`, above the mirror, so they are reached through the table's own
    relation.
    """
    losers = listing.decided | listing.lost
    gone, _ = table.conflicts.exclude(loser_instant__in=losers).delete()
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


def apply_heartbeats(table: Table, beats: Sequence[Heartbeat], now: datetime) -> bool:
    records = {record.instant: record for record in HeartbeatRecord.objects.filter(table=table)}
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
    HeartbeatRecord.objects.filter(
        table=table, is_gone=True, last_seen__lt=now - GONE_KEPT_FOR
    ).delete()
    return bool(new or changed or left)


def forgets_heartbeats_at(table: Table) -> datetime | None:
    """When the first of those that are gone is forgotten."""
    gone = HeartbeatRecord.objects.filter(table=table, is_gone=True)
    oldest: datetime | None = gone.aggregate(oldest=Min("last_seen"))["oldest"]
    return None if oldest is None else oldest + GONE_KEPT_FOR


def apply_markers(table: Table, marker_facts: Sequence[MarkerFacts]) -> bool:
    records = {(one.instant, one.kind): one for one in MarkerCount.objects.filter(table=table)}
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


def _instant_columns(facts: InstantFacts) -> dict[str, Any]:
    return {
        "state": facts.instant.state.value,
        "completed_at": facts.instant.completed_at,
        "operation_type": facts.operation_type[:32],
        "writer_name": facts.writer[:200],
        "stream": facts.stream[:100],
        "sink": str(facts.metadata.get("sink", {}).get("id", "")),
        "rows": facts.rows,
        "files": facts.files,
        "bytes": facts.bytes,
        "partitions": facts.partitions,
        "operation_ref": facts.operation_ref[:64],
        "metadata": {**facts.metadata, **_fingerprint(facts)},
    }


def _fingerprint(facts: InstantFacts) -> dict[str, str]:
    if facts.schema_json is None:
        return {}
    try:
        return {"schema_fingerprint": normal_schema(facts.schema_json)[1]}
    except MalformedTable:
        return {"error": "its schema cannot be read"}


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


def _differs(record: InstantRecord | HeartbeatRecord, columns: dict[str, Any]) -> bool:
    """A completed instant's file never changes, so its metadata need not be compared."""
    return any(
        getattr(record, name) != value for name, value in columns.items() if name != "metadata"
    )
