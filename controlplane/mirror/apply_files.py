"""From the listed file groups to rows, inside the sync's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane.mirror.bulk import BATCH_ROWS, update_rows
from controlplane.mirror.file_facts import FileGroupFacts, FileListing, SliceFacts
from controlplane.mirror.models import FileGroupRecord, LeftOutFiles, SyncMark
from controlplane.mirror.queries.files import SMALL_FILE_BYTES
from controlplane.mirror.row_counts import BaseFile
from controlplane.tables.models import Table
from workers.clock import InstantTime

HISTORY_SLICES_MAX = 20
SLICE_INSTANTS_MAX = 50
_SUMMED: Final = ("bytes", "log_files", "log_bytes", "old_files", "old_bytes")
_COUNTS: Final = (*_SUMMED, "file_groups", "file_groups_with_logs", "small_files")
_LEFT_OUT_COLUMNS: Final = (*_COUNTS, "largest_bytes", "last_instant")


@dataclass(frozen=True, slots=True)
class AppliedFiles:
    is_changed: bool
    records: list[FileGroupRecord]
    """All rows of the table, as they are now."""
    left_out: list[LeftOutFiles]
    """Sums over the file groups without a row."""


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
    left_out = _sum_by_partition(table, listing.left_out)
    is_changed = _apply_left_out(table, mark, left_out) or bool(new or changed or gone)
    return AppliedFiles(is_changed, [*new, *changed, *unchanged], left_out)


def _sum_by_partition(table: Table, groups: Iterable[FileGroupFacts]) -> list[LeftOutFiles]:
    sums: dict[tuple[str, bool], Counter[str]] = {}
    newest: dict[tuple[str, bool], InstantTime] = {}
    largest: dict[tuple[str, bool], int] = {}
    for group in groups:
        key, columns = (group.partition, group.is_replaced), _columns(group, {})
        total = sums.setdefault(key, Counter(dict.fromkeys(_COUNTS, 0)))
        total.update({name: columns[name] for name in _SUMMED})
        total["file_groups"] += 1
        total["file_groups_with_logs"] += columns["log_files"] > 0
        total["small_files"] += 0 < columns["base_bytes"] < SMALL_FILE_BYTES
        newest[key] = max(newest.get(key, ""), columns["last_instant"])
        largest[key] = max(largest.get(key, 0), columns["bytes"])
    return [
        LeftOutFiles(
            table=table, partition=key[0], is_replaced=key[1], last_instant=newest[key],
            largest_bytes=largest[key], **total,
        )
        for key, total in sums.items()
    ]  # fmt: skip


def _apply_left_out(table: Table, mark: SyncMark, sums: list[LeftOutFiles]) -> bool:
    """Make the stored sums equal to these; return whether they were not."""
    stored = mark.stored(LeftOutFiles.objects.filter(table=table), "left_out_files")
    records = {(record.partition, record.is_replaced): record for record in stored}
    new, changed = [], []
    for row in sums:
        record = records.pop((row.partition, row.is_replaced), None)
        if record is None:
            new.append(row)
        elif any(getattr(record, name) != getattr(row, name) for name in _LEFT_OUT_COLUMNS):
            row.pk = record.pk
            changed.append(row)
    old_keys = [record.pk for record in records.values()]
    for start in range(0, len(old_keys), BATCH_ROWS):
        LeftOutFiles.objects.filter(pk__in=old_keys[start : start + BATCH_ROWS]).delete()
    LeftOutFiles.objects.bulk_create(new, batch_size=BATCH_ROWS)
    if changed:
        update_rows(changed, list(_LEFT_OUT_COLUMNS))
    return bool(new or changed or old_keys)


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
