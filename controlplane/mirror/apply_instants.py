"""Instants, of the active timeline and of its history, from facts to rows, inside the sync's
transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from controlplane.mirror.apply_schemas import fingerprint_of, may_change_schemas
from controlplane.mirror.archive_facts import ArchiveFacts, without
from controlplane.mirror.bulk import BATCH_ROWS, insert_instants, insert_names, update_rows
from controlplane.mirror.facts import InstantFacts, Key, Listing, key_of
from controlplane.mirror.models import InstantRecord, SchemaRecord, SyncMark
from controlplane.tables.models import Table
from workers.timeline.instant import State

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
    "file_times",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedInstants:
    is_changed: bool
    """Whether any row changed."""
    needs_schemas: bool
    """Whether the schema history must be made again."""
    gone: list[InstantRecord]
    """Rows that left the timeline and did not move into its history."""


def apply_instants(
    table: Table,
    mark: SyncMark,
    listing: Listing,
    read: Sequence[InstantFacts],
    archive: ArchiveFacts,
) -> AppliedInstants:
    active = mark.stored(InstantRecord.objects.filter(table=table, is_archived=False))
    records = {(record.requested_at, record.action): record for record in active.defer("metadata")}
    stay = {key_of(one) for one in listing.timeline.instants} | archive.moved
    gone = [record for key, record in records.items() if key not in stay]
    needs_schemas = any(
        record.state == State.COMPLETED.value for key, record in records.items() if key not in stay
    )
    schemas = mark.stored(SchemaRecord.objects.filter(table=table))
    newest = schemas.order_by("-completed_at").first()
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
        needs_schemas |= may_change_schemas(facts, newest)
    left = [record.pk for record in gone]
    for start in range(0, len(left), BATCH_ROWS):
        InstantRecord.objects.filter(pk__in=left[start : start + BATCH_ROWS]).delete()
    insert_instants(new)
    update_rows(changed, _INSTANT_COLUMNS)
    moved = [records[key].pk for key in sorted(archive.moved) if key in records]
    for start in range(0, len(moved), BATCH_ROWS):
        batch = moved[start : start + BATCH_ROWS]
        InstantRecord.objects.filter(pk__in=batch).update(is_archived=True, file_times=None)
    has_moved, has_moved_schemas = _apply_archive(table, archive, newest)
    return AppliedInstants(
        is_changed=bool(gone or new or changed) or has_moved,
        needs_schemas=needs_schemas or has_moved_schemas,
        gone=gone,
    )


def _apply_archive(
    table: Table, archive: ArchiveFacts, newest: SchemaRecord | None
) -> tuple[bool, bool]:
    """Whether any row changed, and whether the history of schemas must be made again: that waits
    until all contents are there.
    """
    keys = [key_of(one.instant) for one in archive.contents]
    for batch in _batches(table, [*archive.gone, *keys]):
        batch.delete()
    insert_names(table, without(archive.names, keys))
    insert_instants(
        [
            InstantRecord(
                table=table,
                requested_at=one.instant.requested_at,
                action=one.instant.action.value,
                is_archived=True,
                **_instant_columns(one) | _known_completion(one),
            )
            for one in archive.contents
        ]
    )
    has_schemas = any(may_change_schemas(one, newest) for one in archive.contents)
    needs_schemas = bool(archive.gone) or (has_schemas and archive.is_complete)
    return not archive.is_empty, needs_schemas or archive.ends_reading


def _batches(table: Table, keys: Sequence[Key]) -> Iterator[QuerySet[InstantRecord]]:
    """Their archived rows."""
    for start in range(0, len(keys), BATCH_ROWS):
        wanted = set(keys[start : start + BATCH_ROWS])
        times = [requested_at for requested_at, _ in wanted]
        rows = InstantRecord.objects.filter(table=table, is_archived=True, requested_at__in=times)
        named = rows.values_list("pk", "requested_at", "action")
        yield InstantRecord.objects.filter(
            pk__in=[pk for pk, requested_at, action in named if (requested_at, action) in wanted]
        )


def _known_completion(facts: InstantFacts) -> dict[str, str]:
    """Foreign archives may lack it; request order is all there is then."""
    return {"completed_at": facts.instant.completed_at or facts.instant.requested_at}


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
        "metadata": {**facts.metadata, **fingerprint_of(facts)},
        "file_times": dict(facts.file_times) or None,
    }


def _differs(record: InstantRecord, columns: dict[str, Any]) -> bool:
    """A completed instant's file never changes, so its metadata need not be compared."""
    return any(
        getattr(record, name) != stored for name, stored in columns.items() if name != "metadata"
    )
