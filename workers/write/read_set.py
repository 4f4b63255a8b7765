"""The read set of a batch: which file slices decide where its rows go and which of them count, and
the keys that the write searches to delete them, or of rows that it read and writes back in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from workers.concurrency.read_keys import ReadKeys, ReadKeysSource
from workers.concurrency.read_set import ReadSet
from workers.files.base_keys import SortedKeys
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.versions import DELETED, ROW, kinds
from workers.options.write_keys import DuplicatePolicy
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.groups import RowGroup, row_groups
from workers.write.key_partitions import candidate_slices
from workers.write.lookup import candidates, collect_batch_keys
from workers.write.prepare import SLOT
from workers.write.staging import StagedFile, StagingPlace, by_file_group, read_staged


def build_read_set(
    context: WriteContext, prepared: pa.Table, staged: Sequence[StagedFile], storage: StagingPlace
) -> ReadSet:
    """Return the read set of a write; `prepared` and `staged` are all of its rows."""
    slices = partial(_find_slices, context, prepared, staged)
    return ReadSet(slices, collect_read_keys(context, prepared, staged, storage))


def _find_slices(
    context: WriteContext, prepared: pa.Table, staged: Sequence[StagedFile]
) -> Iterable[FileSlice]:
    located: list[dict[str, str | int]] = (
        prepared.select([PARTITION_PATH, SLOT])
        .group_by([PARTITION_PATH, SLOT])
        .aggregate([])
        .to_pylist()
    )
    places = {(str(place[PARTITION_PATH]), int(place[SLOT])) for place in located}
    places |= {(batch.partition, batch.slot) for file in staged for batch in file.batches}
    partitions = {partition for partition, _ in places}
    if context.looks_up:
        partitions.update(path for file in staged for path in file.partitions)
        return [candidate.slice for candidate in candidates(context, partitions)]
    if context.config.keeps_keys_single:
        return candidate_slices(context, {slot for _, slot in places}, partitions)
    if not _reads_own_slices(context):
        return []
    own = (context.current_slice(partition, slot) for partition, slot in places)
    return [slice_ for slice_ in own if slice_ is not None]


def _reads_own_slices(context: WriteContext) -> bool:
    """Check whether the rows of a file group are compared with, or merged into, its content. Under
    the bucket index a log is written without reading anything.
    """
    is_insert = context.operation in ("insert", "bulk_insert")
    asks_for_keys = is_insert and context.options.duplicate_policy is not DuplicatePolicy.NONE
    return asks_for_keys or not context.config.is_merge_on_read


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
