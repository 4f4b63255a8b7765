"""Rows of one write as the data blocks of a log.

A null in a row of a partial update means no value. Apache Hudi reads it so; hudi-rs only while the
block has every column of the table. Once another column is added the block lacks that one, and its
nulls erase there the values of older logs. So such rows are written in blocks of exactly the
columns for which they have values: a new column does not change those. No block has all columns
either: hudi-rs drops such a row as a whole if a greater one with fewer values came before it. That
costs a second, small block, and a column becomes required only once the logs are compacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from workers.files.log_block import encode_avro_block, encode_parquet_block
from workers.files.meta_columns import META_COLUMNS
from workers.merge.group_state import is_hidden
from workers.merge.versions import Keys, Positions
from workers.options.table_options import TableConfig
from workers.options.write_keys import LogBlockFormat
from workers.read.log_versions import IS_DELETED
from workers.schema.table_schema import TableSchema
from workers.write.context import WriteContext
from workers.write.rows import conform_with_meta

BLOCKS_MAX = 64
"""Rows with more distinct sets of columns than this are written in one block of all columns."""


def encode_row_blocks(rows: pa.Table, context: WriteContext) -> Iterator[bytes]:
    """Yield the blocks in the order of merging: a key's versions are ordered as in `rows`."""
    is_partial = context.config.is_partial_update
    if is_partial and IS_DELETED not in context.schema.field_names:
        parts = _split_by_columns(rows)
        if parts is not None:
            for part in parts:
                yield from (_encode_block(some, context) for some in _narrow(part, context))
            return
    if (
        context.rule.groups is None
        and context.is_narrow
        and any(rows.column(name).null_count for name in context.columns)
    ):
        # In a narrow block hudi-rs lets null erase; in a full row every reader keeps the value.
        rows = conform_with_meta(rows, context)
    yield _encode_block(rows, context)


def _split_by_columns(rows: pa.Table) -> list[pa.Table] | None:
    """Split the rows by the columns for which they have values; None for too many parts."""
    names = [name for name in rows.column_names if name not in META_COLUMNS]
    says = [np.asarray(rows.column(name).is_valid().to_numpy(), np.bool_) for name in names]
    patterns, pattern = np.unique(np.stack(says, axis=1), axis=0, return_inverse=True)
    turn = _earlier_versions(Keys.of(rows).codes) * len(patterns) + pattern.reshape(-1)
    turns = np.unique(turn)
    if len(turns) > BLOCKS_MAX:
        return None
    parts = []
    for number in turns:
        pattern_of_part = patterns[number % len(patterns)]
        part_names = [name for name, is_said in zip(names, pattern_of_part, strict=True) if is_said]
        parts.append(rows.filter(pa.array(turn == number)).select([*META_COLUMNS, *part_names]))
    return parts


def _narrow(rows: pa.Table, context: WriteContext) -> list[pa.Table]:
    """Split rows with values for every column into two parts; both have the required columns."""
    config, names = context.config, rows.column_names[len(META_COLUMNS) :]
    own = own_columns(config, context.schema, names)
    is_ordered = config.ordering_field is not None  # Else a later row is always the greater.
    if not (own and is_ordered) or len(names) < len(context.schema.field_names):
        return [rows]
    last = [*META_COLUMNS, *(name for name in names if name not in own[:-1])]
    return [rows.drop_columns([own[-1]]), rows.select(last)]


def own_columns(config: TableConfig, schema: TableSchema, names: Sequence[str]) -> list[str]:
    """Return the columns among `names` that a partial row may leave out: neither key, partition or
    ordering columns, nor required ones.
    """
    shared = {*config.record_key, *config.partition_by, *config.ordering}
    shared.update(field.name for field in schema.arrow if not field.nullable)
    return [name for name in names if name not in shared]


def _earlier_versions(codes: Positions) -> Positions:
    """Return, for each row, how many rows of its key come before it."""
    order = np.argsort(codes, kind="stable")
    is_first = np.append(True, np.diff(codes[order]) != 0)
    starts = np.flatnonzero(is_first)
    earlier = np.empty(len(codes), dtype=np.int64)
    earlier[order] = np.arange(len(codes)) - np.repeat(starts, np.diff([*starts, len(codes)]))
    return earlier


def _encode_block(rows: pa.Table, context: WriteContext) -> bytes:
    columns = [name for name in rows.column_names[len(META_COLUMNS) :] if not is_hidden(name)]
    avro = context.schema.select(columns).with_meta_avro()
    if context.options.log_block_format is LogBlockFormat.AVRO:
        return encode_avro_block(rows, instant=context.instant, avro_schema=avro)
    return encode_parquet_block(
        rows, instant=context.instant, avro_schema=avro, **context.compression
    )
