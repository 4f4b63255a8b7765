"""The read set of a batch: which file slices decide where its rows go and which of them count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from workers.concurrency.read_set import ReadSet
from workers.files.meta_columns import PARTITION_PATH
from workers.options.write_keys import DuplicatePolicy
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.key_partitions import candidate_slices
from workers.write.lookup import candidates
from workers.write.prepare import SLOT
from workers.write.read_keys import collect_read_keys
from workers.write.staging import StagedFile, StagingPlace


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
