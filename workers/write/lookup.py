"""The existing file groups of the keys of a batch, under an index that looks up keys.

Of base files only the keys are read, and where the index has filters only for files whose footer
may contain a key. Logs are read as well: Hudi's index never puts an insert there, but writers with
another index do, and a key whose delete was compacted together with an upsert is in a log alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_keys import Positions, SortedKeys, find_stored_keys
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.index.bloom_filter import HashedKeys
from workers.index.file_keys import read_file_keys
from workers.merge.versions import ROW, kinds
from workers.read.file_slice import read_slice
from workers.read.log_versions import IS_DELETED, LogReader
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.write.context import REPLACING, WriteContext
from workers.write.prepare import SLOT

ALIVE = "_sluice_alive"
_TYPES: dict[str, pa.DataType] = {
    RECORD_KEY: pa.string(),
    PARTITION_PATH: pa.string(),
    SLOT: pa.int32(),
    ALIVE: pa.bool_(),
}
PLACES = pa.schema(_TYPES)
"""A key in a file group: where, and whether its row still exists or was deleted by a log."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file group that may hold keys of the batch."""

    partition: str
    slot: int
    slice: FileSlice


@dataclass(frozen=True)
class BatchKeys:
    """The keys of a batch that a file group is asked for."""

    sorted: SortedKeys

    @cached_property
    def hashed_keys(self) -> HashedKeys:
        """The keys for filters, hashed once for all of them."""
        return HashedKeys(self.sorted.array)


def candidates(context: WriteContext, partitions: Collection[str]) -> list[Candidate]:
    """Return the file groups to search for rows of these partitions, in the order of
    their slots.
    """
    is_global = context.config.is_global
    replaced = {*partitions, *context.emptied}

    def matters(partition: str) -> bool:
        if context.operation not in REPLACING:
            return is_global or partition in partitions
        # What is replaced is not asked; a global index must not be left with a key twice.
        is_partial = context.operation == "insert_overwrite"
        return is_global and is_partial and partition not in replaced

    return [
        Candidate(partition, slot, slice_)
        for (partition, slot), slice_ in context.slices.items()
        if matters(partition)
    ]


def find_places(
    context: WriteContext,
    file_groups: Iterable[Candidate],
    keys_by_partition: dict[str, BatchKeys],
    storage: Storage,
) -> pa.Table:
    """Find the file groups of the keys: rows of `PLACES`. Global indexes have their keys under no
    partition, `""`.

    Raises NotFound, MalformedTable, UnsupportedTable.
    """
    is_global = context.config.is_global

    def look(candidate: Candidate) -> pa.Table:
        keys = keys_by_partition["" if is_global else candidate.partition]
        return _places(context, candidate, keys, storage)

    return pa.concat_tables([PLACES.empty_table(), *storage.at_once(look, file_groups)])


def collect_batch_keys(context: WriteContext, prepared: pa.Table) -> dict[str, BatchKeys]:
    """Return the keys that `find_places` takes, by partition path; all under `""` for a global
    index.
    """
    if context.config.is_global:
        return {"": BatchKeys(SortedKeys.of(prepared.column(RECORD_KEY)))}
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    codes = paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
    keys = prepared.column(RECORD_KEY).combine_chunks()
    named: list[Any] = paths.dictionary.to_pylist()
    return {
        path: BatchKeys(SortedKeys.of(keys.take(order[ends[at] : ends[at + 1]])))
        for at, path in enumerate(named)
    }


def _places(
    context: WriteContext, candidate: Candidate, keys: BatchKeys, storage: Storage
) -> pa.Table:
    slice_ = candidate.slice
    in_logs, deleted = _in_logs(context, slice_, keys.sorted, storage)
    positions = in_logs
    if slice_.base_file is not None:
        positions = np.union1d(_in_base_file(context, slice_.base_file, keys, storage), in_logs)
    alive = positions
    if len(positions) and slice_.log_files and (context.config.is_global or len(deleted)):
        alive = np.intersect1d(positions, _find_merged_keys(context, slice_, keys.sorted, storage))
    count = len(positions)
    return pa.table(
        [
            keys.sorted.array.take(positions),
            pa.repeat(pa.scalar(candidate.partition, pa.string()), count),
            pa.repeat(pa.scalar(candidate.slot, pa.int32()), count),
            pa.array(np.isin(positions, alive)),
        ],
        schema=PLACES,
    )


def _in_logs(
    context: WriteContext, slice_: FileSlice, keys: SortedKeys, storage: Storage
) -> tuple[Positions, Positions]:
    """Return ascending positions in `keys` of those that have a row in the slice's logs, also a row
    that is marked as deleted, and of those that have a delete there.
    """
    nowhere = np.empty(0, np.int64)
    if not slice_.log_files:
        return nowhere, nowhere
    columns = {RECORD_KEY, IS_DELETED}.intersection((RECORD_KEY, *context.schema.field_names))
    versions = LogReader(storage, context.config, context.schema, columns).versions(slice_)
    if versions is None:
        return nowhere, nowhere
    is_delete = kinds(versions) != ROW
    has_row: Any = ~is_delete
    if IS_DELETED in columns:
        flags: Any = pc.fill_null(versions.column(IS_DELETED), False)  # type: ignore[type-var]
        has_row |= flags.to_numpy()
    held, deleted = (
        keys.find_positions(versions.filter(pa.array(some)).column(RECORD_KEY), keys.everything)
        for some in (has_row, is_delete)
    )
    return held, deleted


def _in_base_file(context: WriteContext, path: str, keys: BatchKeys, storage: Storage) -> Positions:
    assert context.config.index is not None
    if not context.config.index.has_filters:
        return find_stored_keys(storage, path, keys.sorted)
    left = np.flatnonzero(read_file_keys(storage, path).might_contain(keys.hashed_keys))
    if not len(left):
        return np.empty(0, np.int64)
    return left[find_stored_keys(storage, path, SortedKeys(keys.sorted.array.take(left)))]


def _find_merged_keys(
    context: WriteContext, slice_: FileSlice, keys: SortedKeys, storage: Storage
) -> Positions:
    merged = partial(read_slice, storage, context.config.showing_unmatched, context.schema)
    rows = merged(slice_, columns=[RECORD_KEY], rule=context.rule)
    return keys.find_positions(rows.column(RECORD_KEY), keys.everything)
