"""Rows of column groups that go to another partition as a whole: the stored row is read as states,
deleted there and written where the batch brings it, together with the batch's own rows.

A row moves when at least one value of the batch counts. If all values of the batch are late, or it
only deletes, the row stays in its partition. Stored deletes of a key without a row move along, so
that older rows do not come back in any partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_merge import GroupMerge, states_from_batch
from workers.merge.group_state import ROW_GONE, SET, bits
from workers.merge.versions import ROW, Keys, Mask, combine_chunks, kinds
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.rows import conform_states

_NO_KEYS: Any = pa.array([], pa.string())
States = Mapping[str, pa.Table]
"""States by the partition of the stored rows."""


def relocate_rows(
    context: WriteContext, groups: Sequence[RowGroup], stored_rows: States, remembered: States
) -> list[RowGroup]:
    """Return the groups with the rows that move. `groups` are all rows of one slot, each key in one
    of them. `stored_rows` are the rows of those keys in other partitions, and `remembered` the
    deletes that are stored there.
    """
    moving = _find_moving_keys(context, groups, stored_rows)
    moved = {
        path: states.filter(_is_key_in(states, moving)) for path, states in stored_rows.items()
    }
    located = [RECORD_KEY, *context.config.partition_by]
    staying = {
        path: states.filter(pc.invert(_is_key_in(states, moving))).select(located)
        for path, states in stored_rows.items()
    }
    listed = (combine_chunks(stored.column(RECORD_KEY)) for stored in stored_rows.values())
    alive = pa.concat_arrays([_NO_KEYS, *listed])
    # A row has all stored deletes of its key.
    kept_deletes = {
        path: states.filter(
            pc.and_(pa.array(_outrank_older_rows(states)), pc.invert(_is_key_in(states, alive)))
        )
        for path, states in remembered.items()
    }
    new_groups = reroute_rows(groups, staying)
    arriving = [*moved.values(), *kept_deletes.values()]
    if any(rows.num_rows for rows in arriving):
        new_groups = [
            replace(group, arriving=_build_arriving(context, arriving, group.rows))
            for group in new_groups
        ]
    leaving = {path: _collect_keys(moved, kept_deletes, path) for path in {**moved, **kept_deletes}}
    return number_rows(_with_leaving(new_groups, leaving))


def reroute_rows(groups: Sequence[RowGroup], stored_rows: States) -> list[RowGroup]:
    """Move the rows of these keys into the partition of the stored row, with its partition columns
    if `stored_rows` have them; of several partitions the first.
    """
    groups, (empty, *_) = list(groups), [group.rows.slice(0, 0) for group in groups]
    for path, stored in stored_rows.items():
        stored_keys = combine_chunks(stored.column(RECORD_KEY))
        rerouted_rows = [group.rows.filter(_is_key_in(group.rows, stored_keys)) for group in groups]
        coming = _with_stored_partition(pa.concat_tables(rerouted_rows), stored)
        if coming.num_rows == 0:
            continue
        keys = combine_chunks(coming.column(RECORD_KEY))
        groups = [
            replace(group, rows=group.rows.filter(pc.invert(_is_key_in(group.rows, keys))))
            for group in groups
        ]
        at = next((n for n, group in enumerate(groups) if group.partition == path), None)
        if at is None:
            at = len(groups)
            groups.append(RowGroup(path, groups[0].slot, empty, first_row=0))
        rows = pa.concat_tables([groups[at].rows, coming])
        groups[at] = replace(groups[at], rows=rows, keys_differ=False)
    return groups


def number_rows(groups: Iterable[RowGroup]) -> list[RowGroup]:
    """Return the groups with something to write, and number their rows."""
    numbered_groups, first_row = [], 0
    for group in groups:
        if group.rows.num_rows or group.leaving is not None:
            numbered_groups.append(replace(group, first_row=first_row))
            first_row += group.written_rows
    return numbered_groups


def _find_moving_keys(
    context: WriteContext, groups: Sequence[RowGroup], stored_rows: States
) -> Any:
    """Return the keys for which a value of the batch counts next to the stored ones."""
    rule = context.rule.groups
    assert rule is not None, context.config.name
    if not stored_rows:
        return _NO_KEYS
    stored = pa.concat_tables(stored_rows.values())
    rows = pa.concat_tables(group.rows for group in groups)
    rows = rows.filter(_is_key_in(rows, combine_chunks(stored.column(RECORD_KEY))))
    fresh = conform_states(
        states_from_batch(rows.filter(pa.array(kinds(rows) == ROW)), rule), context
    )
    versions = pa.concat_tables([stored, fresh], promote_options="default")
    keys = Keys.of(versions)
    decided = GroupMerge(
        versions, keys.codes, len(keys.distinct), rule.groups(context.schema.field_names)
    ).decide()
    return keys.distinct.filter(pa.array(decided.others >= stored.num_rows))


def _outrank_older_rows(states: pa.Table) -> Mask:
    """Return which states of deleted keys outrank older versions."""
    keeps_away: Mask = bits(states, SET) != 0
    if ROW_GONE in states.column_names:
        keeps_away |= np.asarray(states.column(ROW_GONE).is_valid().to_numpy())
    return keeps_away


def _build_arriving(
    context: WriteContext, states: Sequence[pa.Table], rows: pa.Table
) -> pa.Table | None:
    """Return the states of those keys that `rows` have too, in the partition columns of these."""
    keys = combine_chunks(rows.column(RECORD_KEY))
    mine = pa.concat_tables(
        states_here.filter(_is_key_in(states_here, keys)) for states_here in states
    )
    located = rows.select([RECORD_KEY, *context.config.partition_by])
    return _with_stored_partition(mine, located) if mine.num_rows else None


def _collect_keys(moved: States, kept_deletes: States, path: str) -> pa.Table:
    return pa.concat_tables(
        rows_by_path[path].select([RECORD_KEY])
        for rows_by_path in (moved, kept_deletes)
        if path in rows_by_path
    )


def _with_leaving(groups: Sequence[RowGroup], leaving: States) -> list[RowGroup]:
    some = {path: keys for path, keys in leaving.items() if keys.num_rows}
    new_groups = [replace(group, leaving=some.pop(group.partition, None)) for group in groups]
    empty, slot = groups[0].rows.slice(0, 0), groups[0].slot
    return new_groups + [
        RowGroup(path, slot, empty, 0, leaving=keys) for path, keys in some.items()
    ]


def _with_stored_partition(rows: pa.Table, stored: pa.Table) -> pa.Table:
    """Return the rows with the partition columns that `stored` has of each key."""
    at = pc.index_in(rows.column(RECORD_KEY), value_set=combine_chunks(stored.column(RECORD_KEY)))
    for name in set(rows.column_names) & set(stored.column_names) - {RECORD_KEY}:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), stored.column(name).take(at))
    return rows


def _is_key_in(rows: pa.Table, keys: Any) -> Any:
    """Return which rows have one of these keys."""
    return pc.is_in(rows.column(RECORD_KEY), value_set=keys)
