"""One file slice as rows: base file and logs through the one merge function.

Blocks whose instant did not commit never get here: the view leaves their files out.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from workers.config import TableConfig
from workers.errors import UnsupportedTable
from workers.files.base_file import read_base_file
from workers.files.log_block import AvroData, Deletes, LogBlock, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import META_COLUMNS
from workers.merge.merge import MergeRule, merge_into
from workers.schema.reconcile import conform
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
) -> pa.Table:
    """The slice's rows under `schema`, meta columns first; of its columns those asked for.

    Raises UnsupportedTable for a block that we would merge wrongly, MalformedTable.
    """
    wanted = None if columns is None else set(columns) | _needed(config)
    rows = _base(storage, schema, slice_, wanted)
    if slice_.log_files:
        tables = [
            _block_rows(block, schema, config, wanted, path)
            for path in slice_.log_files
            for block in read_log_file(storage, path)
        ]
        rule = MergeRule.of(config)
        rows = merge_into(rows, pa.concat_tables([rows.slice(0, 0), *tables]), rule)
    if columns is None:
        return rows
    return rows.select([name for name in rows.column_names if name in columns])


def slice_schema(schema: TableSchema) -> pa.Schema:
    """What `read_slice` answers with when no columns are named."""
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    return pa.schema([*meta, *schema.arrow])


def _needed(config: TableConfig) -> set[str]:
    """Merging needs them whatever the reader asked for."""
    ordering = config.ordering_field
    return {*META_COLUMNS, *([ordering] if ordering else [])}


def _base(
    storage: Storage, schema: TableSchema, slice_: FileSlice, wanted: Collection[str] | None
) -> pa.Table:
    if slice_.base_file is None:
        return _with_meta(slice_schema(schema).empty_table(), schema, wanted)
    names = None if wanted is None else sorted(wanted)
    return _with_meta(read_base_file(storage, slice_.base_file, names), schema, wanted)


def _block_rows(
    block: LogBlock,
    schema: TableSchema,
    config: TableConfig,
    wanted: Collection[str] | None,
    path: str,
) -> pa.Table:
    match block:
        case ParquetData() | AvroData():
            if block.is_partial and not config.is_partial_update:
                raise UnsupportedTable("partial log blocks are not read", path=path)
            return _with_meta(block.table(), schema, wanted)
        case Deletes():
            raise UnsupportedTable("delete blocks are not read by this version", path=path)
        case _:
            raise UnsupportedTable("rollback blocks are not read by this version", path=path)


def _with_meta(rows: pa.Table, schema: TableSchema, wanted: Collection[str] | None) -> pa.Table:
    names = [name for name in schema.field_names if wanted is None or name in wanted]
    data = rows.select(
        [name for name in rows.column_names if name in names and name not in META_COLUMNS]
    )
    conformed = conform(data, schema, columns=names)
    meta = [rows.column(name).cast(pa.string()) for name in META_COLUMNS]
    fields = [pa.field(name, pa.string()) for name in META_COLUMNS]
    return pa.table([*meta, *conformed.columns], schema=pa.schema([*fields, *conformed.schema]))
