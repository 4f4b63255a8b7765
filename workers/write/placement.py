"""From prepared rows to the file groups that take them.

Under the bucket index a row brings its slot. Under the others keys are looked up, and the rows of
known keys go to their file groups. Inserts are assigned to small files of their partition, then to
new file groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.options.insert_size import InsertShare, SmallFile, assign_inserts
from workers.options.write_keys import SortMode
from workers.storage.base import Storage, get_size
from workers.write.context import REPLACING, WriteContext
from workers.write.global_index import tag_globally
from workers.write.groups import RowGroup, row_groups
from workers.write.key_partitions import check_one_partition
from workers.write.lookup import candidates, collect_batch_keys, find_places
from workers.write.prepare import SLOT
from workers.write.tagging import TaggedRows, tag_records, with_column

Shares = Mapping[str, list[InsertShare]]
"""By partition."""


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """All rows of a write, and where each goes."""

    context: WriteContext
    """As handed in, and which file groups take inserts and deleted keys that come back."""
    rows: pa.Table
    """As prepared, each with partition and slot of its file group."""
    routed_groups: Sequence[RowGroup] | None = None
    """These rows, where keys of other partitions were looked for."""

    def groups(self, threads: int | None = 1) -> Iterable[RowGroup]:
        """Return the rows by file group, each file group once; `threads` as `row_groups` takes
        them.
        """
        return row_groups(self.rows, threads) if self.routed_groups is None else self.routed_groups


def place_batch(context: WriteContext, prepared: pa.Table, storage: Storage) -> PlacedBatch:
    """Place all rows of the write, `prepared`. Raises InvalidInput for keys that an insert may not
    bring, NotFound, MalformedTable.
    """
    if context.config.keeps_keys_single:
        return PlacedBatch(
            context, prepared, check_one_partition(context, row_groups(prepared), storage)
        )
    if not context.looks_up:
        return PlacedBatch(context, prepared)
    keys = collect_batch_keys(context, prepared)
    partitions: list[Any] = prepared.column(PARTITION_PATH).unique().to_pylist()
    places = find_places(context, candidates(context, partitions), keys, storage)
    tagged_rows = tag(context, prepared, places, storage)
    inserts = sort_inserts(context, tagged_rows.inserts)
    shares = assign_slots(context, count_inserts(inserts), storage)
    rows = pa.concat_tables([tagged_rows.updates, with_slots(inserts, shares)])
    context = replace(
        with_padded_groups(context, shares), revived=tagged_rows.revived, left=tagged_rows.left
    )
    return PlacedBatch(context, rows)


def tag(
    context: WriteContext, prepared: pa.Table, places: pa.Table, storage: Storage
) -> TaggedRows:
    """Split `prepared`, all rows of some keys, into updates and inserts by `places`, all places of
    these. Raises InvalidInput.
    """
    if context.config.is_global:
        return tag_globally(context, prepared, places, storage)
    return tag_records(context, prepared, places)


def count_inserts(inserts: pa.Table) -> dict[str, int]:
    """Return the count of rows of `inserts` by partition."""
    counts = inserts.column(PARTITION_PATH).value_counts()
    paths: list[Any]
    rows: list[Any]
    paths, rows = (array.to_pylist() for array in counts.flatten())
    return dict(zip(paths, rows, strict=True))


def assign_slots(context: WriteContext, counts: Mapping[str, int], storage: Storage) -> Shares:
    """Return the slots that take the inserts of each partition, in their order."""
    small = _find_small_files(context, counts, storage)
    new = _find_first_slots(context)
    return {
        path: assign_inserts(count, small.get(path, []), new.get(path, 0), context.sizing)
        for path, count in counts.items()
    }


def with_padded_groups(context: WriteContext, shares: Shares) -> WriteContext:
    """Return the context that names the current file groups which `shares` let grow
    (`WriteContext.padded`).
    """
    padded = {
        (path, share.slot) for path, dealt in shares.items() for share in dealt if not share.is_new
    }
    return replace(context, padded=frozenset(padded))


def sort_inserts(context: WriteContext, inserts: pa.Table) -> pa.Table:
    """Sort the inserts of a bulk insert, so that its files hold ranges that do not overlap."""
    options = context.options
    if context.operation != "bulk_insert" or options.sort_mode is SortMode.NONE:
        return inserts
    names = (PARTITION_PATH, *(options.sort_columns or (RECORD_KEY,)))
    return inserts.sort_by([(name, "ascending") for name in names])


def with_slots(inserts: pa.Table, shares: Shares) -> pa.Table:
    """Return the inserts of each partition with the slots of its shares, as many rows as each share
    has.
    """
    paths = inserts.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    codes = paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    named: list[Any] = paths.dictionary.to_pylist()
    dealt = [share for path in named for share in shares[path]]
    slots = np.empty(len(codes), np.int32)
    slots[order] = np.repeat([share.slot for share in dealt], [share.rows for share in dealt])
    return with_column(inserts, SLOT, pa.array(slots))


def _find_small_files(
    context: WriteContext, partitions: Collection[str], storage: Storage
) -> dict[str, list[SmallFile]]:
    """Return base files without logs that may grow, by partition."""
    sizing = context.sizing
    if context.operation in (*REPLACING, "bulk_insert") or sizing.small_file_bytes == 0:
        return {}
    base_files = [
        (path, slot, slice_.base_file)
        for (path, slot), slice_ in context.slices.items()
        if path in partitions
        and slice_.base_file is not None
        and not slice_.log_files
        and (path, slot) not in context.kept_apart
    ]
    sizes = storage.at_once(lambda base_file: get_size(storage, base_file[2]), base_files)
    small_files: dict[str, list[SmallFile]] = {}
    for (path, slot, _), size in zip(base_files, sizes, strict=True):
        if size < sizing.small_file_bytes:
            small_files.setdefault(path, []).append(SmallFile(slot, size))
    if not context.config.is_merge_on_read:
        return small_files
    return {
        path: sorted(files, key=lambda file: file.bytes)[: sizing.candidates_max]
        for path, files in small_files.items()
    }


def _find_first_slots(context: WriteContext) -> dict[str, int]:
    """Return the first slot after those of its file groups, by partition."""
    first_slots: dict[str, int] = {}
    for path, slot in context.slices:
        first_slots[path] = max(first_slots.get(path, 0), slot + 1)
    return first_slots
