"""One file slice as rows: base file and logs through the one merge function.

Files whose instant did not commit never get here: the view leaves them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

import pyarrow as pa

from workers.files.base_file import iterate_base_file, read_base_file
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.merge.group_file import to_visible_rows
from workers.merge.merge import merge_into, merge_into_parts
from workers.merge.merge_facts import MergeFacts
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.completed_rows import completed, needed_columns
from workers.read.conformed import conformed
from workers.read.log_versions import IS_DELETED, LogReader
from workers.read.states import base_states, deciding_columns, empty_states
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice


def read_slice(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    *,
    columns: Collection[str] | None = None,
    rule: MergeRule | None = None,
) -> pa.Table:
    """The slice's rows under `schema`, meta columns first, with those of its columns asked for.

    An executor hands in the `rule` that its driver made: it need not have registered the merger.
    Raises UnsupportedTable for a block that we would merge wrongly, MalformedTable.
    """
    if config.groups is not None:
        return _read_groups(storage, config, schema, slice_, columns)
    wanted = _needed(config, schema, slice_, columns)
    rows = _base(storage, config, schema, slice_, wanted)
    newer = LogReader(storage, config, schema, wanted).versions(slice_)
    if newer is not None:
        rows = merge_into(rows, newer, rule or MergeRule.of(config))
    return _selected(rows, columns)


def merge_slice_batches(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    *,
    columns: Collection[str] | None = None,
    rule: MergeRule | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read_slice`, with the logs in memory and the base file passing through piece by piece.

    A piece's untouched rows come in their order, then its merged ones; keys that only the logs have
    come last.
    """
    if config.groups is not None:
        for states in merged_state_parts(storage, config, schema, slice_, columns=columns):
            yield from _selected(to_visible_rows(states, config.groups), columns).to_batches()
        return
    wanted = _needed(config, schema, slice_, columns)
    newer = LogReader(storage, config, schema, wanted).versions(slice_)
    parts = _base_parts(storage, config, schema, slice_, wanted)
    if newer is not None:
        parts = merge_into_parts(parts, newer, rule or MergeRule.of(config))
    for part in parts:
        yield from _selected(part, columns).to_batches()


def merged_state_parts(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    *,
    columns: Collection[str] | None = None,
    facts: MergeFacts | None = None,
) -> Iterator[pa.Table]:
    """The slice of a table with column groups as states, deleted keys among them, some at a time:
    what a new base file is made of. `facts` are complete when the last piece was taken.

    Raises as `read_slice`.
    """
    assert config.groups is not None, config.name
    wanted = None if columns is None else {*columns, *deciding_columns(config.groups, schema)}
    newer = LogReader(storage, config, schema, wanted).versions(slice_)
    parts: Iterator[pa.Table] = iter([empty_states(config.groups, schema, wanted)])
    if slice_.base_file is not None:
        base = base_states(storage, slice_.base_file, config.groups, schema, wanted)
        parts = chain(parts, base)
    if newer is not None:
        parts = merge_into_parts(parts, newer, MergeRule.of(config), facts)
    yield from parts


def _read_groups(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    columns: Collection[str] | None,
) -> pa.Table:
    assert config.groups is not None, config.name
    parts = merged_state_parts(storage, config, schema, slice_, columns=columns)
    rows = [to_visible_rows(states, config.groups) for states in parts]
    return _selected(pa.concat_tables(rows), columns)


def slice_schema(schema: TableSchema) -> pa.Schema:
    """What `read_slice` answers with when no columns are named."""
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    return pa.schema([*meta, *schema.arrow])


def _needed(
    config: TableConfig, schema: TableSchema, slice_: FileSlice, columns: Collection[str] | None
) -> set[str] | None:
    """Merging needs some whatever the reader asked for, and a registered merger all of them."""
    if columns is None or (config.merger is not None and slice_.log_files):
        return None
    needed = set(columns)
    if slice_.log_files:
        decide = {config.ordering_field or IS_DELETED, IS_DELETED}
        needed |= {RECORD_KEY} | (set(schema.field_names) & decide)
    return needed


def _selected(rows: pa.Table, columns: Collection[str] | None) -> pa.Table:
    if columns is None:
        return rows
    return rows.select([name for name in rows.column_names if name in columns])


def _base(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    wanted: Collection[str] | None,
) -> pa.Table:
    if slice_.base_file is None:
        return conformed(slice_schema(schema).empty_table(), schema, wanted)
    names = _read_names(config, wanted)
    rows = read_base_file(storage, slice_.base_file, names)
    return conformed(completed_base(rows, config, schema, slice_), schema, wanted)


def _base_parts(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    slice_: FileSlice,
    wanted: Collection[str] | None,
) -> Iterator[pa.Table]:
    if slice_.base_file is not None:
        names = _read_names(config, wanted)
        for part in iterate_base_file(storage, slice_.base_file, names):
            yield conformed(completed_base(part, config, schema, slice_), schema, wanted)


def _read_names(config: TableConfig, wanted: Collection[str] | None) -> list[str] | None:
    names = needed_columns(config, wanted)
    return None if names is None else sorted(names)


def completed_base(
    rows: pa.Table, config: TableConfig, schema: TableSchema, slice_: FileSlice
) -> pa.Table:
    """`rows` of the slice's base file, with the meta columns that the table leaves out. Raises
    UnsupportedTable.
    """
    assert slice_.base_file is not None, slice_
    assert slice_.base_instant is not None, slice_
    return completed(
        rows,
        config,
        schema,
        partition=slice_.partition,
        instant=slice_.base_instant,
        file_name=slice_.base_file.rpartition("/")[2],
    )
