"""Rows of a batch split into updates of existing file groups, and inserts.

All rows of a key come together, so they are decided once. A row whose key is in several file
groups, as other engines' inserts may leave it, goes to each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.merge import merge
from workers.merge.versions import DELETED, ROW, Keys, kinds
from workers.write.context import WriteContext
from workers.write.duplicates import check_batch_duplicates
from workers.write.groups import row_groups
from workers.write.lookup import ALIVE
from workers.write.prepare import SLOT

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """The rows of a batch by what becomes of them."""

    updates: pa.Table
    """As prepared, with partition and slot of the file group that holds the key."""
    inserts: pa.Table
    """One row per key, and no deletes. They have no slot yet."""
    revived: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(partition, slot) -> how many keys of the updates were deleted there. Other writers may have
    written them to other file groups since, so they count as inserts.
    """
    left: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(partition, slot) -> how many keys of the updates are there only to be deleted, because their
    rows move to another partition. They are counted where they move to.
    """


def tag_records(context: WriteContext, prepared: pa.Table, places: pa.Table) -> TaggedRows:
    """Split the rows into updates and inserts under an index that looks up keys in the row's own
    partition.

    Raises InvalidInput for keys that an insert duplicates under policy `fail`.
    """
    rows, held = number_identities(prepared, places)
    at, place = join_codes(rows, held)
    chosen = places.take(place)
    updates = with_places(prepared.take(at), chosen)
    is_new = np.ones(len(rows), np.bool_)
    is_new[at] = False
    inserts = build_inserts(context, prepared.filter(pa.array(is_new)))
    return TaggedRows(updates, inserts, count_revived(context, updates, chosen))


def count_revived(
    context: WriteContext, updates: pa.Table, places: pa.Table
) -> dict[tuple[str, int], int]:
    """Count by partition and slot the keys of `updates` that were deleted at their places, which
    `places` are, row by row.
    """
    if context.operation == "delete" or pc.all(places.column(ALIVE)).as_py() is not False:
        return {}
    is_row = pa.array(kinds(updates) == ROW)
    return count_by_place(updates.filter(pc.and_(is_row, pc.invert(places.column(ALIVE)))))


def count_by_place(rows: pa.Table) -> dict[tuple[str, int], int]:
    """Count the distinct keys of placed rows by partition and slot."""
    counts = rows.group_by([PARTITION_PATH, SLOT]).aggregate([(RECORD_KEY, "count_distinct")])
    paths: list[Any]
    slots: list[Any]
    keys: list[Any]
    paths, slots, keys = (
        counts.column(name).to_pylist()
        for name in (PARTITION_PATH, SLOT, f"{RECORD_KEY}_count_distinct")
    )
    return dict(zip(zip(paths, slots, strict=True), keys, strict=True))


def build_inserts(context: WriteContext, rows: pa.Table) -> pa.Table:
    """Build the inserts: rows without a stored one, merged into one per key; none for keys that end
    deleted.
    """
    if context.operation == "delete":
        return rows.slice(0, 0)
    if DELETED not in rows.column_names and Keys.of(rows).are_unique:
        return rows
    merged = [rows.slice(0, 0)]
    for group in row_groups(_in_one_slot(rows)):
        check_batch_duplicates(context, group)
        group_rows = merge(group.rows, context.rule)
        group_rows = group_rows.filter(pa.array(kinds(group_rows) == ROW))
        merged.append(with_place(group_rows, group.partition, group.slot).select(rows.column_names))
    return pa.concat_tables(merged)


def with_place(rows: pa.Table, partition: str, slot: int) -> pa.Table:
    """Return the rows with this partition path and slot as last columns, which they do not have
    yet.
    """
    count = rows.num_rows
    path = pa.repeat(pa.scalar(partition, pa.string()), count)
    return rows.append_column(pa.field(PARTITION_PATH, pa.string()), path).append_column(
        pa.field(SLOT, pa.int32()), pa.repeat(pa.scalar(slot, pa.int32()), count)
    )


def with_places(rows: pa.Table, places: pa.Table) -> pa.Table:
    """Return the rows with partition path and slot of `places`, row by row."""
    for name in (PARTITION_PATH, SLOT):
        rows = with_column(rows, name, places.column(name))
    return rows


def with_column(rows: pa.Table, name: str, values: Any) -> pa.Table:
    """Other values in a column that is there."""
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


def join_codes(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Return pairs of positions with equal codes, in the order of `left`; each with all that match
    it.
    """
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - first
    at = np.repeat(np.arange(len(left)), counts)
    within = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    return at, order[first[at] + within]


def number_identities(prepared: pa.Table, places: pa.Table) -> tuple[Codes, Codes]:
    """Return a number per row of each, equal where partition and key are."""
    keys, paths = _codes(prepared, places, RECORD_KEY), _codes(prepared, places, PARTITION_PATH)
    many = max((int(path.max()) for path in paths if len(path)), default=0) + 1
    return keys[0] * many + paths[0], keys[1] * many + paths[1]


def _codes(prepared: pa.Table, places: pa.Table, name: str) -> tuple[Codes, Codes]:
    distinct: Any = prepared.column(name).combine_chunks().dictionary_encode()
    codes: Any = pc.index_in(places.column(name), value_set=distinct.dictionary)
    theirs: Any = pc.fill_null(codes, len(distinct.dictionary))
    ours = distinct.indices.to_numpy()
    return ours.astype(np.int64), theirs.to_numpy().astype(np.int64)


def _in_one_slot(rows: pa.Table) -> pa.Table:
    """Return the rows in one slot: only partitions matter now, not shares of keys."""
    return with_column(rows, SLOT, pa.array(np.zeros(rows.num_rows, "i4")))
