"""Rows on their way into a file: meta columns in front, under the writer schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_file import read_base_file
from workers.files.meta_columns import (
    COMMIT_SEQNO,
    FILE_NAME,
    META_COLUMNS,
    RECORD_KEY,
    with_meta_columns,
)
from workers.merge.group_state import GONE, SET, bits, has_bit, is_alive, is_hidden, with_absent
from workers.merge.hudi_merge import is_null_zero
from workers.merge.merge import precombine
from workers.merge.versions import DELETED, DELETED_FIELD, Mask, combine_chunks
from workers.options.column_groups import ColumnGroup
from workers.read.states import base_states, conformed_states, empty_states
from workers.schema.reconcile import conform
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.timeline.group_facts import FactsByGroup, drop_unknown_facts
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.status import OrderingText, TaskIds


def build_new_rows(
    context: WriteContext, group: RowGroup, task: TaskIds, file_name: str
) -> pa.Table:
    """Return the group's rows, merged among themselves, as rows of this instant, with `DELETED` as
    the last column if the batch has it. Keys repeat only where rows of different ordering values
    stay apart.
    """
    rows = group.rows if group.keys_differ else precombine(group.rows, context.rule)
    marks = [name for name in rows.column_names if name == DELETED or is_hidden(name)]
    if group.keeps_seqno:
        marks.append(COMMIT_SEQNO)
    return with_meta_columns(
        rows.select([*context.columns, *marks]),
        instant=context.instant,
        keys=rows.column(RECORD_KEY),
        partition=group.partition,
        file_name=file_name,
        task_partition=task.partition,
        first_row=group.first_row,
        keeps_seqno=group.keeps_seqno,
    )


def build_arriving_states(
    context: WriteContext, group: RowGroup, task: TaskIds, file_name: str
) -> pa.Table | None:
    """Return whole states that come from other partitions, as rows of this instant; None without
    such.
    """
    if group.arriving is None:
        return None
    return with_meta_columns(
        group.arriving,
        instant=context.instant,
        keys=group.arriving.column(RECORD_KEY),
        partition=group.partition,
        file_name=file_name,
        task_partition=task.partition,
        first_row=group.first_row + group.rows.num_rows,
    )


def count_moved_rows(group: RowGroup) -> int:
    """Count the rows that come from another partition."""
    return 0 if group.arriving is None else int(np.count_nonzero(is_alive(group.arriving)))


def count_leaving_keys(group: RowGroup) -> int:
    """Count the keys that leave for another partition, of rows or of stored deletes."""
    return 0 if group.leaving is None else group.leaving.num_rows


def conform_states(rows: pa.Table, context: WriteContext) -> pa.Table:
    """Conform the rows as `conform_with_meta` does, for a table with column groups."""
    rule = context.rule.groups
    assert rule is not None, context.config.name
    states = conformed_states(rows, rule, context.schema, None)
    return with_absent(states, rule.groups(context.schema.field_names), context.columns)


def read_current_states(
    storage: Storage, current_slice: FileSlice, context: WriteContext
) -> pa.Table:
    """Return the rows of `base_rows`, as states, with the deleted keys that the file stores."""
    rule = context.rule.groups
    assert rule is not None, context.config.name
    assert current_slice.base_file is not None, current_slice
    parts = base_states(storage, current_slice.base_file, rule, context.schema, None)
    return pa.concat_tables([empty_states(rule, context.schema, None), *parts])


def read_base_rows(storage: Storage, current_slice: FileSlice, context: WriteContext) -> pa.Table:
    """Read the rows of the current base file under the writer schema, meta columns first; without
    the file's name, which the next one replaces, unless a merger gets whole rows.
    """
    assert current_slice.base_file is not None, current_slice
    assert not current_slice.log_files, current_slice
    meta = [name for name in META_COLUMNS if name != FILE_NAME or context.rule.is_folding]
    # By name: the file may hold columns that the table has dropped since.
    names = [*meta, *context.schema.field_names]
    return conform_with_meta(read_base_file(storage, current_slice.base_file, names), context)


def conform_with_meta(rows: pa.Table, context: WriteContext) -> pa.Table:
    """Conform stored or new rows, which have meta columns, to the writer schema: meta columns as
    text first, the file's name where they have it, then all columns of the schema, `DELETED` last
    where `rows` have it. Raises InvalidInput, UnsupportedTable.
    """
    marks = [name for name in rows.column_names if name == DELETED]
    meta = [name for name in META_COLUMNS if name != FILE_NAME or name in rows.column_names]
    own = rows.drop_columns([*meta, *marks])
    data = conform(own, context.schema, are_stored=True)
    fields = [pa.field(name, pa.string()) for name in meta]
    columns = [*(rows.column(name).cast(pa.string()) for name in meta), *data.columns]
    conformed = pa.table(columns, schema=pa.schema([*fields, *data.schema]))
    return conformed.append_column(DELETED_FIELD, rows.column(DELETED)) if marks else conformed


def find_empty_columns(context: WriteContext, rows: pa.Table) -> tuple[str, ...]:
    """Return the columns of this write without a single value in `rows`."""
    return tuple(name for name in context.columns if rows.column(name).null_count == rows.num_rows)


def count_keys(context: WriteContext, rows: pa.Table) -> int:
    """Count the keys of `rows`, which come from `build_new_rows`."""
    if not context.rule.is_folding:
        return rows.num_rows
    keys: int = pc.count_distinct(rows.column(RECORD_KEY)).as_py()
    return keys


def count_group_keys(context: WriteContext, group: RowGroup, rows: pa.Table) -> int:
    """Count the keys of `rows`, which `build_new_rows` made of the group. Keys that are only
    deleted here because their rows move to another partition do not count.
    """
    return count_keys(context, rows) - context.left.get((group.partition, group.slot), 0)


def find_max_ordering(context: WriteContext, rows: pa.Table) -> OrderingText | None:
    """Return the greatest value in `rows` of the column that shows the progress of the write; None
    without such a column or value. Times are texts in ISO 8601.
    """
    field = _get_progress_column(context)
    if field is None or field not in rows.column_names:
        return None
    return _as_text(pc.max(rows.column(field)))


def has_low_ordering(context: WriteContext, rows: pa.Table) -> bool:
    """Check the rows for `WriteStatus.has_low_ordering`."""
    field = context.config.ordering_field
    if field is None or field not in rows.column_names:
        return False
    values: Any = combine_chunks(rows.column(field))
    if values.null_count:
        return True
    if not is_null_zero(values.type) or len(values) == 0:
        return False
    return bool(pc.min(values.cast(pa.int32())).as_py() <= 0)


def measure_groups(context: WriteContext, rows: pa.Table) -> FactsByGroup:
    """Measure what `rows`, which come from `build_new_rows`, bring to each column group."""
    if context.rule.groups is None:
        return {}
    groups, columns = context.rule.groups.groups(context.columns), set(context.columns)
    is_set, is_deleted = bits(rows, SET), bits(rows, GONE)
    return drop_unknown_facts(
        {
            group.name: _measure_group(
                group, rows, has_bit(is_set, number), has_bit(is_deleted, number)
            )
            for number, group in enumerate(groups)
            if not columns.isdisjoint(group.all_columns)
        }
    )


def _measure_group(
    group: ColumnGroup, rows: pa.Table, written: Mask, deleted: Mask
) -> dict[str, OrderingText | None]:
    count = int(np.count_nonzero(written))
    all_names = set(rows.column_names)
    facts: dict[str, OrderingText | None] = {
        "rows": count,
        "deletes": int(np.count_nonzero(written & deleted)),
        "nulls": sum(
            int(np.count_nonzero(written & ~deleted & rows.column(name).is_null().to_numpy()))
            for name in group.columns
            if name in all_names and group.is_null_ignored(name)
        ),
        "skipped": rows.num_rows - count,
    }
    if group.ordering and count:
        ages = rows.column(group.ordering[0]).filter(pa.array(written))
        ends: Any = pc.min_max(ages)
        facts |= {"least": _as_text(ends["min"]), "greatest": _as_text(ends["max"])}
    return facts


def _as_text(scalar: Any) -> OrderingText | None:
    try:
        value = scalar.as_py()
    except OverflowError:  # Python's years end at 9999, and those of files do not.
        return str(scalar.cast(pa.string()).as_py())
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "isoformat"):
        is_moment = hasattr(value, "hour")
        return str(value.isoformat(timespec="microseconds") if is_moment else value.isoformat())
    return str(value)


def _get_progress_column(context: WriteContext) -> str | None:
    """Return the column whose greatest value shows the progress of this write: that of the first
    group that it brings.
    """
    groups = context.rule.groups
    if groups is None:
        return context.config.ordering_field
    ages = [group.ordering[0] for group in groups.declared] + list(groups.ordering[:1])
    return next((name for name in ages if name in context.columns), None)
