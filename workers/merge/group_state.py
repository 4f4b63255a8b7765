"""The hidden columns of a row in a table with column groups, so that merging loses nothing.

A *state* is a row with these hidden columns, in a batch, a log block or a base file alike:

- `_ms_set`: one bit per group; whether any version of it was seen, a delete included.
- `_ms_deleted`: one bit per group; whether its greatest version is a delete.
- `_ms_v<i>_<column>`: the ordering value of a column that may differ from its group's.
- `_ms_d<i>_<group>`: the ordering value of the greatest delete of a group whose columns have
  ordering values.
- `_ms_row_deleted`: up to which ordering value all groups are deleted.
- `_ms_erased`: one bit per group whose columns have no ordering values and are written separately;
  whether a delete is below the state, so that the group's values in older states are deleted.
- `_ms_list_<column>`: the elements of a top-N list that it does not show, if the table has slack
  (`workers.merge.top_n_lists`).

They are columns of the files, not of the table's schema: other readers ignore them. A column
without ordering values that a version lacks is marked by a boolean column `ABSENT` + its name, in a
log block and in memory only. In a base file, below which there is nothing, null is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.top_n_lists import list_memory, memory_type, sort_own_lists
from workers.merge.versions import ABSENT, DELETED, Mask, combine_chunks, kinds, with_columns
from workers.options.column_groups import ColumnGroup
from workers.options.group_settings import DeleteScope, Granularity

SET = "_ms_set"
GONE = "_ms_deleted"
ROW_GONE = "_ms_row_deleted"
ERASED = "_ms_erased"
_GROUP_DELETE = "_ms_d"
BIT_FIELDS = (pa.field(SET, pa.int64()), pa.field(GONE, pa.int64()))


def column_version(column: str, part: int) -> str:
    """Return the hidden column of a column's ordering value, by the number of the ordering column,
    from 0.
    """
    return f"_ms_v{part}_{column}"


def group_delete(group: str, part: int) -> str:
    """Return the hidden column of the ordering value of a group's greatest delete, numbered
    likewise.
    """
    return f"{_GROUP_DELETE}{part}_{group}"


def hidden_fields(
    groups: Sequence[ColumnGroup], schema: pa.Schema, columns: Collection[str] | None = None
) -> list[pa.Field[Any]]:
    """Return the hidden fields of a state with these `columns` (None: all of `schema`), in their
    order.
    """
    all_names = set(schema.names)
    wanted_names = all_names if columns is None else set(columns)
    fields: list[pa.Field[Any]] = list(BIT_FIELDS)
    if any(map(has_column_turns, groups)):
        fields.append(pa.field(ERASED, pa.int64()))
    if (row_age := _row_delete_type(groups, schema)) is not None:
        fields.append(pa.field(ROW_GONE, row_age))
    for group in groups:
        for column, aggregate in group.lists.items():
            if aggregate.is_retractable and column in wanted_names and column in all_names:
                kind = memory_type(schema.field(column).type)
                fields.append(pa.field(list_memory(column), kind))
        if not group.is_ordered:
            continue
        types = [schema.field(name).type for name in group.ordering]
        if has_column_ages(group):
            fields += [pa.field(group_delete(group.name, n), kind) for n, kind in enumerate(types)]
        for column in group.columns:
            if group.is_versioned(column) and column in wanted_names:
                fields += [
                    pa.field(column_version(column, n), kind) for n, kind in enumerate(types)
                ]
    return fields


def has_column_ages(group: ColumnGroup) -> bool:
    """Check if its columns are written separately, each with an ordering value of its own."""
    return group.is_ordered and _is_written_by_column(group)


def has_column_turns(group: ColumnGroup) -> bool:
    """Check if its columns are written separately, in commit order."""
    return not group.is_ordered and _is_written_by_column(group)


def _is_written_by_column(group: ColumnGroup) -> bool:
    """Check if a batch may have any of its columns; for `_default` a delete may have none."""
    return group.granularity is Granularity.COLUMN or any(map(group.is_versioned, group.columns))


def is_hidden(name: str) -> bool:
    """Check if a column of this name is one of a state's own."""
    return name.startswith("_ms_")


def without_state(rows: pa.Table) -> pa.Table:
    """Return the rows without the hidden columns."""
    hidden = [name for name in rows.column_names if is_hidden(name) or name.startswith(ABSENT)]
    return rows.drop_columns(hidden) if hidden else rows


def bits(rows: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a column of bits per group, row by row; no bit where it is null."""
    column: Any = rows.column(name)
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


def is_alive(states: pa.Table) -> Mask:
    """Return which keys have a group that is set and not deleted."""
    return np.asarray((bits(states, SET) & ~bits(states, GONE)) != 0)


def has_group_deletes(states: pa.Table) -> Mask:
    """Return which states delete a group, or the row, up to some ordering value at least."""
    mask: Mask = np.zeros(states.num_rows, dtype=np.bool_)
    for name in states.column_names:
        if name in (GONE, ERASED):
            mask |= bits(states, name) != 0
        elif name == ROW_GONE or name.startswith(_GROUP_DELETE):
            mask |= np.asarray(states.column(name).is_valid().to_numpy(), np.bool_)
    return mask


def has_bit(mask: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> Mask:
    """Return, row by row, whether the bit of the group with this number is set."""
    return np.asarray((mask >> number) & 1, dtype=np.bool_)


def to_states(rows: pa.Table, groups: Sequence[ColumnGroup], columns: Collection[str]) -> pa.Table:
    """Convert the rows of a writer to states; `columns` are the columns that it wrote.

    A group is written where one of its ordering values is not null; its cells are cleared
    elsewhere. A row with a delete in `DELETED` deletes the groups that it writes.
    """
    said_names = set(columns)
    deletes = kinds(rows) != 0
    if DELETED in rows.column_names:
        rows = rows.drop_columns([DELETED])
    is_set = np.zeros(rows.num_rows, np.int64)
    written: list[Mask] = []
    for number, group in enumerate(groups):
        mask = _is_written(rows, group, said_names)
        written.append(mask)
        is_set |= mask.astype(np.int64) << number
        if not mask.all():
            rows = _clear(rows, group.all_columns, ~mask)
        if deletes.any():
            rows = _clear(rows, group.columns, deletes)
        rows = _cut(rows, group)
    deleted = np.where(deletes, is_set, 0)
    added: dict[str, Any] = {SET: pa.array(is_set), GONE: pa.array(deleted)}
    turns = [number for number, group in enumerate(groups) if has_column_turns(group)]
    if turns:
        added[ERASED] = pa.array(deleted & sum(1 << number for number in turns))
    if (row_age := _row_delete_type(groups, rows.schema)) is not None:
        added[ROW_GONE] = _find_row_delete(rows, groups, written, deletes, row_age)
    for group, mask in zip(groups, written, strict=True):
        added |= dict(_ages(rows, group, mask, deletes, said_names))
    return with_absent(with_columns(rows, added), groups, said_names)


def with_absent(
    rows: pa.Table, groups: Sequence[ColumnGroup], columns: Collection[str]
) -> pa.Table:
    """Mark columns that a writer did not write as absent, where no ordering value shows it."""
    said_names, all_names = set(columns), set(rows.column_names)
    silent = {
        ABSENT + column: pa.repeat(pa.scalar(True), rows.num_rows)
        for group in filter(has_column_turns, groups)
        for column in filter(group.is_versioned, group.columns)
        if column not in said_names and column in all_names and ABSENT + column not in all_names
    }
    return with_columns(rows, silent)


def _is_written(rows: pa.Table, group: ColumnGroup, columns: Collection[str]) -> Mask:
    if not group.ordering:
        is_any = any(column in columns for column in group.columns)
        return np.full(rows.num_rows, is_any)
    mask = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in group.ordering:
        if name in columns:
            mask |= np.asarray(rows.column(name).is_valid().to_numpy())
    return mask


def _ages(
    rows: pa.Table, group: ColumnGroup, written: Mask, deletes: Mask, columns: Collection[str]
) -> Iterator[tuple[str, Any]]:
    all_names = set(rows.column_names)
    if not group.is_ordered or not set(group.ordering) <= all_names:
        return  # Rows that do not know the group have no ages of it.
    ages = [rows.column(name) for name in group.ordering]
    if has_column_ages(group):
        for part, age in enumerate(ages):
            yield group_delete(group.name, part), _where(written & deletes, age)
    for column in group.columns:
        if not group.is_versioned(column) or column not in all_names:
            continue
        says = written & ~deletes if column in columns else np.zeros(rows.num_rows, np.bool_)
        if group.is_null_ignored(column):
            says = says & np.asarray(rows.column(column).is_valid().to_numpy())
        for part, age in enumerate(ages):
            yield column_version(column, part), _where(says, age)


def _find_row_delete(
    rows: pa.Table,
    groups: Sequence[ColumnGroup],
    written: list[Mask],
    deletes: Mask,
    kind: Any,
) -> Any:
    """Return the greatest ordering value among the groups of the row that delete it."""
    greatest: Any = pa.nulls(rows.num_rows, kind)
    for group, mask in zip(groups, written, strict=True):
        if group.delete is DeleteScope.ROW and group.ordering[0] in rows.column_names:
            age = _where(mask & deletes, rows.column(group.ordering[0]).cast(kind))
            older = pc.less(greatest, age)
            greatest = pc.if_else(pc.fill_null(older, True), pc.coalesce(age, greatest), greatest)
    return greatest


def _row_delete_type(groups: Sequence[ColumnGroup], schema: pa.Schema) -> pa.DataType | None:
    """Return the type of ordering values up to which all groups are deleted. Groups have one type,
    or some are already widened: then the wider type holds all values.
    """
    names = [group.ordering[0] for group in groups if group.delete is DeleteScope.ROW]
    all_names = set(schema.names)
    types = [schema.field(name).type for name in names if name in all_names]
    wide = [kind for kind in types if kind in (pa.int64(), pa.float64())]
    return next(iter((*wide, *types)), None)


def _where(mask: Mask, column: Any) -> Any:
    if mask.all():
        return column
    return pc.if_else(pa.array(mask), column, pa.scalar(None, column.type))


def _cut(rows: pa.Table, group: ColumnGroup) -> pa.Table:
    """Cut top-N lists as every later merge does, so that none shows elements that a merge
    removes.
    """
    all_names = set(rows.column_names)
    columns: dict[str, Any] = {}
    for name, aggregate in group.lists.items():
        if name in all_names:
            columns |= sort_own_lists(combine_chunks(rows.column(name)), aggregate).columns(name)
    return with_columns(rows, columns)


def _clear(rows: pa.Table, columns: Sequence[str], mask: Mask) -> pa.Table:
    all_names = set(rows.column_names)
    cleared = {name: _where(~mask, rows.column(name)) for name in columns if name in all_names}
    return with_columns(rows, cleared)
