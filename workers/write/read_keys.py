"""The keys that a write searches to delete them, or of rows that it read and writes back in part,
for the validation of its commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from workers.concurrency.read_keys import ReadKeys, ReadKeysSource
from workers.files.base_keys import SortedKeys
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.versions import DELETED, ROW, kinds
from workers.write.context import WriteContext
from workers.write.groups import RowGroup, row_groups
from workers.write.lookup import collect_batch_keys
from workers.write.staging import StagedFile, StagingPlace, by_file_group, read_staged


def collect_read_keys(
    context: WriteContext, prepared: pa.Table, staged: Sequence[StagedFile], storage: StagingPlace
) -> ReadKeysSource | None:
    """Return the keys to compare with later commits. `prepared` and `staged` are all rows of the
    write. None if every key that is to be deleted leaves a trace in a file.
    """
    if not _is_collecting(context):
        return None

    def collect() -> Iterable[ReadKeys]:
        yield from _collect_from_rows(context, prepared)
        for file in staged:
            yield from _collect_from_file(context, file, storage)

    return collect


def _is_collecting(context: WriteContext) -> bool:
    """Check whether keys to delete that are not found are skipped. A bucket takes marked rows."""
    if _has_read(context):
        return True
    return context.operation == "delete" or (context.marks_deletes and context.looks_up)


def _collect_from_rows(context: WriteContext, prepared: pa.Table) -> Iterable[ReadKeys]:
    if _has_read(context):
        yield from _collect_from_read_rows(context, row_groups(prepared))
        return
    if DELETED in prepared.column_names:
        prepared = prepared.filter(pa.array(kinds(prepared) != ROW))
    if prepared.num_rows == 0:
        return
    if not context.looks_up:
        yield from _collect_from_buckets(context, row_groups(prepared))
        return
    is_global = context.config.is_global
    for path, keys in collect_batch_keys(context, prepared).items():
        yield ReadKeys(None if is_global else path, None, keys.sorted)


def _collect_from_buckets(context: WriteContext, groups: Iterable[RowGroup]) -> Iterable[ReadKeys]:
    for group in groups:
        # A log of deletes is written to a standing file group whether it has the keys or not.
        current_slice = context.current_slice(group.partition, group.slot)
        if current_slice is None or not context.config.is_merge_on_read:
            keys = SortedKeys.of(group.rows.column(RECORD_KEY))
            is_anywhere = context.config.keeps_keys_single
            yield ReadKeys(None if is_anywhere else group.partition, group.slot, keys)


def _has_read(context: WriteContext) -> bool:
    return context.keeps_read_rows or context.needs_rows


def _collect_from_read_rows(
    context: WriteContext, groups: Iterable[RowGroup]
) -> Iterable[ReadKeys]:
    may_change = not context.keeps_read_rows
    for group in groups:
        keys = SortedKeys.of(group.rows.column(RECORD_KEY))
        yield ReadKeys(group.partition, group.slot, keys, were_read=True, may_change=may_change)


def _collect_from_file(
    context: WriteContext, file: StagedFile, storage: StagingPlace
) -> Iterable[ReadKeys]:
    groups = by_file_group([file])
    if _has_read(context):
        yield from _collect_from_read_rows(context, read_staged(groups, storage, [RECORD_KEY]))
        return
    if not context.looks_up:
        yield from _collect_from_buckets(context, read_staged(groups, storage, [RECORD_KEY]))
        return
    columns = [RECORD_KEY, PARTITION_PATH, *([DELETED] if context.marks_deletes else [])]
    for group in read_staged(groups, storage, columns):
        yield from _collect_from_rows(context, group.rows)
