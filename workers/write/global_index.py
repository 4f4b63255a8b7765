"""Rows of a batch split into updates and inserts under a global index, where a key has one row in
the whole table.

A row that comes with another partition than that of the stored row moves there, if the table's
options allow it and the merge rule prefers it to the stored row. The stored row is deleted in the
same commit. Otherwise the row stays in the partition of the stored row, in its partition columns as
well: readers take these from the rows or from the path.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.files.partition_paths import row_partition_paths
from workers.merge.merge import find_greatest, merge
from workers.merge.versions import DELETE, DELETE_NOW, DELETED, DELETED_FIELD, ROW, Keys, kinds
from workers.options.write_keys import DuplicatePolicy
from workers.read.file_slice import read_slice
from workers.read.log_versions import IS_DELETED
from workers.storage.base import Storage
from workers.write.context import REPLACING, WriteContext
from workers.write.lookup import ALIVE
from workers.write.prepare import SLOT
from workers.write.tagging import (
    TaggedRows,
    build_inserts,
    count_by_place,
    count_revived,
    join_codes,
    number_identities,
    with_column,
    with_place,
    with_places,
)

Mask = npt.NDArray[np.bool_]
_KEYS_NAMED_MAX = 5


def tag_globally(
    context: WriteContext, prepared: pa.Table, places: pa.Table, storage: Storage
) -> TaggedRows:
    """Split the rows into updates and inserts under an index that looks up keys in all partitions.

    Raises as `tag_records`; InvalidInput when rows of an overwrite are in partitions that stay.
    """
    if prepared.num_rows == 0:
        return TaggedRows(prepared, prepared)
    if context.operation in REPLACING:
        prepared = _with_batch_paths(context, prepared, places.slice(0, 0), storage)
        rows = _route_to_targets(context, prepared)
        _check_overwritten_partitions(context, prepared, rows, places)
        return TaggedRows(prepared.slice(0, 0), build_inserts(context, rows))
    if context.operation != "delete" and _is_moving(context):
        prepared = _with_batch_paths(context, prepared, places, storage)
    batch = _Batch(context, prepared, places)
    staying = batch.find_staying()
    if context.operation == "delete":
        return batch.route(staying)
    if not _is_moving(context):
        return _route_in_place(batch, staying, storage)
    return _route_with_moves(batch, staying, storage)


def _is_moving(context: WriteContext) -> bool:
    """An insert that drops or refuses known keys changes no row, so it moves none."""
    is_insert = context.operation in ("insert", "bulk_insert")
    keeps = is_insert and context.options.duplicate_policy is not DuplicatePolicy.NONE
    return context.config.moves_rows and not keeps


def _with_batch_paths(
    context: WriteContext, rows: pa.Table, places: pa.Table, storage: Storage
) -> pa.Table:
    """Return the rows with the paths of the rows that they are merged into, where a null means no
    value: a null in a partition column leaves the row in the partition of its other versions, and a
    stored null gives way to an older row with a value.
    """
    names = context.config.partition_by
    says_nothing_by_null = context.config.is_partial_update and names
    if not says_nothing_by_null or not set(names) <= set(rows.column_names):
        return rows
    silent: Any = functools.reduce(pc.or_, [pc.is_null(rows.column(name)) for name in names])
    places = places.filter(places.column(ALIVE))
    at: Any = pc.index_in(rows.column(RECORD_KEY), value_set=_single(places.column(RECORD_KEY)))
    stands_at = places.column(PARTITION_PATH).take(_single(at))
    is_other: Any = pc.not_equal(stands_at, rows.column(PARTITION_PATH))
    is_elsewhere: Any = pc.fill_null(is_other, False)
    keys = rows.filter(pc.or_(silent, is_elsewhere)).column(RECORD_KEY).unique()
    if len(keys) == 0:
        return rows
    known_places = places.filter(pc.is_in(places.column(RECORD_KEY), value_set=keys))
    incoming = rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=keys))
    versions = _add_marks(incoming)
    if known_places.num_rows:
        versions = _versions(
            _read_stored(context, known_places, storage, context.columns), incoming
        )
    merged = merge(versions.drop_columns([PARTITION_PATH, SLOT]), context.rule)
    merged = merged.filter(pa.array(kinds(merged) == ROW))
    at = pc.index_in(rows.column(RECORD_KEY), value_set=_single(merged.column(RECORD_KEY)))
    merged_paths = row_partition_paths(context.config, merged).take(_single(at))
    return with_column(rows, PARTITION_PATH, pc.coalesce(merged_paths, rows.column(PARTITION_PATH)))


class _Batch:
    """The rows of a batch by the codes of their keys, and the places of these keys."""

    def __init__(self, context: WriteContext, rows: pa.Table, places: pa.Table) -> None:
        self.context = context
        self.keys = Keys.of(rows)
        self.winners = find_greatest(rows, _ordering(context, rows))
        self.rows = _at_targets(rows, self.keys, self.winners)
        key_codes: Any = pc.index_in(places.column(RECORD_KEY), value_set=self.keys.distinct)
        places = places.filter(key_codes.is_valid())
        self.places = places
        self.place_codes = key_codes.drop_null().to_numpy().astype(np.int64)
        targets = self.rows.column(PARTITION_PATH).take(self.winners[self.place_codes])
        is_target: Any = pc.equal(places.column(PARTITION_PATH), targets)
        self.is_target: Mask = is_target.to_numpy()
        self.is_alive: Mask = places.column(ALIVE).to_numpy()

    def find_staying(self) -> Mask:
        """Places that take the rows of their keys if nothing moves: where the row is still there;
        where none is, the file group of the target that knew it.
        """
        has_alive = np.zeros(len(self.keys.distinct), np.bool_)
        has_alive[self.place_codes[self.is_alive]] = True
        fallback: Mask = self.is_target & ~has_alive[self.place_codes]
        return self.is_alive | fallback

    def route(self, taking: Mask, rows: pa.Table | None = None) -> TaggedRows:
        """Route every row to those `taking` places that have its key; the others are inserts."""
        rows = self.rows if rows is None else rows
        codes = _codes(rows, self.keys)
        at, place = join_codes(codes, self.place_codes[taking])
        chosen = self.places.filter(pa.array(taking)).take(place)
        is_new = np.ones(rows.num_rows, np.bool_)
        is_new[at] = False
        updates = with_places(rows.take(at), chosen)
        inserts = build_inserts(self.context, rows.filter(pa.array(is_new)))
        return TaggedRows(updates, inserts, count_revived(self.context, updates, chosen))


def _route_in_place(batch: _Batch, staying: Mask, storage: Storage) -> TaggedRows:
    """Rows that come with another partition keep the partition columns that they have."""
    routed = batch.route(staying)
    elsewhere = staying & ~batch.is_target
    if not elsewhere.any():
        return routed
    chosen_places = batch.places.filter(pa.array(elsewhere))
    stored = _read_stored(batch.context, chosen_places, storage, batch.context.config.partition_by)
    at, held = join_codes(*number_identities(routed.updates, stored))
    chosen = np.arange(routed.updates.num_rows)
    chosen[at] = routed.updates.num_rows + held
    updates = routed.updates
    for name in batch.context.config.partition_by:
        both = pa.concat_tables([updates.select([name]), stored.select([name])])
        place = updates.schema.get_field_index(name)
        updates = updates.set_column(
            place, updates.schema.field(place), both.column(name).take(chosen)
        )
    return replace(routed, updates=updates)


def _route_with_moves(batch: _Batch, staying: Mask, storage: Storage) -> TaggedRows:
    is_delete = kinds(batch.rows)[batch.winners] != ROW
    elsewhere = batch.is_alive & ~batch.is_target & ~is_delete[batch.place_codes]
    if not elsewhere.any():
        return batch.route(staying)
    chosen = batch.places.filter(pa.array(elsewhere))
    stored = _read_stored(batch.context, chosen, storage, batch.context.columns)
    touched = np.unique(batch.place_codes[elsewhere])
    incoming = batch.rows.filter(pa.array(np.isin(batch.keys.codes, touched)))
    versions = _versions(stored, incoming)
    winners = find_greatest(versions, batch.context.config.ordering_field)
    leaves = np.zeros(len(batch.keys.distinct), np.bool_)
    codes = _codes(versions, batch.keys)
    leaves[codes[winners[winners >= stored.num_rows]]] = True
    if batch.context.config.is_partial_update:
        # An older row may have the partition column of one that lacks it: the path is enough.
        leaves[batch.place_codes[elsewhere]] = True
    moved_from = elsewhere & leaves[batch.place_codes]
    # A row that moves goes to its target; the others stay where they are.
    taking = np.where(leaves[batch.place_codes], batch.is_target, staying)
    routed = batch.route(taking, _whole(batch, versions, leaves))
    deletes = _deletes(batch, moved_from)
    return TaggedRows(
        pa.concat_tables([_add_marks(routed.updates), deletes], promote_options="none"),
        _add_marks(routed.inserts),
        routed.revived,
        count_by_place(deletes),
    )


def _read_stored(
    context: WriteContext, chosen: pa.Table, storage: Storage, names: Sequence[str]
) -> pa.Table:
    """Read the rows at these places, as if they had been prepared with these columns."""
    columns = [*names, RECORD_KEY]
    stored_rows = []
    for place in chosen.group_by([PARTITION_PATH, SLOT]).aggregate([]).to_pylist():
        slice_ = context.slices[place[PARTITION_PATH], place[SLOT]]
        rows = read_slice(
            storage, context.config, context.schema, slice_, columns=columns, rule=context.rule
        )
        places_here = chosen.filter(
            pc.and_(
                pc.equal(chosen.column(PARTITION_PATH), pa.scalar(place[PARTITION_PATH])),
                pc.equal(chosen.column(SLOT), pa.scalar(place[SLOT], pa.int32())),
            )
        )
        keys = places_here.column(RECORD_KEY).combine_chunks()
        rows = rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=keys)).select(columns)
        stored_rows.append(with_place(rows, place[PARTITION_PATH], place[SLOT]))
    return pa.concat_tables(stored_rows)


def _versions(stored: pa.Table, incoming: pa.Table) -> pa.Table:
    return pa.concat_tables(
        [_add_marks(stored), _add_marks(incoming)], promote_options="default"
    ).select(_add_marks(incoming).column_names)


def _whole(batch: _Batch, versions: pa.Table, leaves: Mask) -> pa.Table:
    """Return the batch's rows. Where rows are folded, a row that leaves its partition gets the
    stored values of the columns that it lacks.
    """
    if not batch.context.rule.is_folding:
        return _add_marks(batch.rows)
    is_moved = leaves[_codes(versions, batch.keys)]
    moved = versions.filter(pa.array(is_moved))
    targets = moved.column(PARTITION_PATH), moved.column(SLOT)
    keys = Keys.of(moved)
    last = np.zeros(len(keys.distinct), np.int64)
    last[keys.codes] = np.arange(len(keys.codes))  # Incoming rows come after stored ones.
    merged = merge(moved.drop_columns([PARTITION_PATH, SLOT]), batch.context.rule)
    for name, column in zip((PARTITION_PATH, SLOT), targets, strict=True):
        merged = merged.append_column(versions.schema.field(name), column.take(last))
    others = _add_marks(batch.rows).filter(pa.array(~leaves[batch.keys.codes]))
    return pa.concat_tables([others, merged.select(others.column_names)])


def _deletes(batch: _Batch, moved_from: Mask) -> pa.Table:
    """A delete where each row stood that moves."""
    codes = batch.place_codes[moved_from]
    rows = batch.rows.take(batch.winners[codes])
    rows = with_places(rows, batch.places.filter(pa.array(moved_from)))
    kind = DELETE_NOW
    if IS_DELETED in batch.context.columns:
        # The table keeps deletes as marked rows; this one is as old as the row that moves.
        kind = DELETE
        rows = with_column(rows, IS_DELETED, pa.repeat(pa.scalar(True), rows.num_rows))
    marks = pa.repeat(pa.scalar(kind, pa.int8()), rows.num_rows)
    return _drop_marks(rows).append_column(DELETED_FIELD, marks)


def _route_to_targets(context: WriteContext, rows: pa.Table) -> pa.Table:
    keys = Keys.of(rows)
    return _at_targets(rows, keys, find_greatest(rows, _ordering(context, rows)))


def _ordering(context: WriteContext, rows: pa.Table) -> str | None:
    """Keys to delete come without."""
    field = context.config.ordering_field
    return field if field in rows.column_names else None


def _at_targets(rows: pa.Table, keys: Keys, winners: npt.NDArray[np.int64]) -> pa.Table:
    """Return all rows of a key in the partition of its greatest version."""
    if keys.are_unique:
        return rows
    paths = rows.column(PARTITION_PATH).take(winners[keys.codes])
    return with_column(rows, PARTITION_PATH, paths)


def _check_overwritten_partitions(
    context: WriteContext, prepared: pa.Table, targeted: pa.Table, places: pa.Table
) -> None:
    """Check that an overwrite replaces the partitions that its rows end in, and nothing else.
    Raises InvalidInput.
    """
    if context.operation == "insert_overwrite_table":
        return
    differs: Any = pc.not_equal(prepared.column(PARTITION_PATH), targeted.column(PARTITION_PATH))
    if pc.any(differs).as_py():
        doubled = prepared.filter(differs)
        raise InvalidInput(
            "keys of the batch come with several partitions, and the index is global; which "
            "partitions are overwritten is not clear",
            index=context.config.index,
            first_keys=doubled.column(RECORD_KEY).slice(0, _KEYS_NAMED_MAX).to_pylist(),
        )
    alive = places.filter(places.column(ALIVE))
    if alive.num_rows:
        raise InvalidInput(
            "keys of the batch are in partitions that are not overwritten, and the index is "
            "global; delete them there first, or upsert",
            index=context.config.index,
            keys=alive.num_rows,
            first_keys=alive.column(RECORD_KEY).slice(0, _KEYS_NAMED_MAX).to_pylist(),
        )


def _codes(rows: pa.Table, keys: Keys) -> npt.NDArray[np.int64]:
    codes: Any = pc.index_in(rows.column(RECORD_KEY), value_set=keys.distinct)
    return np.asarray(codes.to_numpy(), np.int64)


def _single(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _add_marks(rows: pa.Table) -> pa.Table:
    if DELETED in rows.column_names:
        return rows
    return rows.append_column(DELETED_FIELD, pa.repeat(pa.scalar(ROW, pa.int8()), rows.num_rows))


def _drop_marks(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([DELETED]) if DELETED in rows.column_names else rows
