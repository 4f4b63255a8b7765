"""From the listed file groups to rows, inside the sync's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.mirror.bulk import BATCH_ROWS, update_rows
from controlplane.mirror.file_facts import FileGroupFacts, FileListing, SliceFacts
from controlplane.mirror.models import FileGroupRecord, SyncMark
from controlplane.mirror.row_counts import BaseFile
from controlplane.tables.models import Table

HISTORY_SLICES_MAX = 20
SLICE_INSTANTS_MAX = 50


@dataclass(frozen=True, slots=True)
class AppliedFiles:
    is_changed: bool
    records: list[FileGroupRecord]
    """All rows of the table, as they are now."""


def apply_file_groups(
    table: Table, mark: SyncMark, listing: FileListing, base_rows: Mapping[BaseFile, int]
) -> AppliedFiles:
    """Make the rows equal to the listing. `base_rows`: rows by base file, as far as they are
    counted.
    """
    records = {
        (record.partition, record.file_id): record
        for record in mark.stored(FileGroupRecord.objects.filter(table=table))
    }
    new, changed, unchanged = [], [], []
    for group in listing.groups:
        columns = _columns(group, base_rows)
        record = records.pop((group.partition, group.file_id), None)
        if record is None:
            new.append(
                FileGroupRecord(
                    table=table, partition=group.partition, file_id=group.file_id, **columns
                )
            )
        elif any(getattr(record, name) != value for name, value in columns.items()):
            for name, value in columns.items():
                setattr(record, name, value)
            changed.append(record)
        else:
            unchanged.append(record)
    gone = [record.pk for record in records.values()]
    for start in range(0, len(gone), BATCH_ROWS):
        FileGroupRecord.objects.filter(pk__in=gone[start : start + BATCH_ROWS]).delete()
    FileGroupRecord.objects.bulk_create(new, batch_size=BATCH_ROWS)
    if changed:
        update_rows(changed, list(_columns(listing.groups[0], {})))
    return AppliedFiles(bool(new or changed or gone), [*new, *changed, *unchanged])


def _columns(group: FileGroupFacts, base_rows: Mapping[BaseFile, int]) -> dict[str, Any]:
    latest, *older = group.slices
    instants = [instant for one in group.slices for instant in one.instants]
    return {
        "base_instant": latest.base_instant,
        "base_file": latest.base.name if latest.base else "",
        "base_bytes": latest.base.size if latest.base else 0,
        "base_rows": base_rows.get((group.partition, latest.base.name)) if latest.base else 0,
        "log_files": len(latest.logs),
        "log_bytes": latest.log_bytes,
        "bytes": latest.bytes,
        "slices": len(group.slices),
        "old_files": sum(one.file_count for one in older),
        "old_bytes": sum(one.bytes for one in older),
        "first_instant": min(instants),
        "last_instant": max(instants),
        "is_replaced": group.is_replaced,
        "history": [_in_short(one) for one in group.slices[:HISTORY_SLICES_MAX]],
    }


def _in_short(slice_facts: SliceFacts) -> dict[str, Any]:
    return {
        "base_instant": slice_facts.base_instant,
        "base_file": slice_facts.base.name if slice_facts.base else "",
        "base_bytes": slice_facts.base.size if slice_facts.base else 0,
        "log_files": len(slice_facts.logs),
        "log_bytes": slice_facts.log_bytes,
        "instants": list(slice_facts.instants[-SLICE_INSTANTS_MAX:]),
        "instant_count": len(slice_facts.instants),
    }
