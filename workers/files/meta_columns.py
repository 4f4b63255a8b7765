"""The five leading columns that Hudi keeps in every row (format page 4.2)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.files.constant_columns import build_constant

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
StringArray: TypeAlias = "pa.Array[Any]"
StringColumn: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)


def with_meta_columns(
    table: pa.Table,
    *,
    instant: InstantTime,
    keys: StringColumn,
    partition: str,
    file_name: str,
    task_partition: int,
    first_row: int = 0,
    keeps_seqno: bool = False,
) -> pa.Table:
    """Return new rows of `instant`: meta columns in front, replacing any that the input carried.
    With `keeps_seqno` its sequence numbers stay: they name the commit that wrote the rows first.

    `file_name` is the base file's own name, or the file id alone in a log block. `first_row` keeps
    sequence numbers apart when one task writes several batches in one commit.
    """
    rows = table.num_rows
    assert len(keys) == rows, (len(keys), rows)
    counters = pa.array(np.arange(first_row, first_row + rows)).cast(pa.string())
    prefix: Any = pa.scalar(f"{instant}_{task_partition}")
    separator: Any = "_"
    values: dict[str, StringColumn] = {
        COMMIT_TIME: _repeat_text(instant, rows),
        COMMIT_SEQNO: pc.binary_join_element_wise(prefix, counters, separator),
        RECORD_KEY: keys,
        PARTITION_PATH: _repeat_text(partition, rows),
        FILE_NAME: _repeat_text(file_name, rows),
    }
    if keeps_seqno:
        values[COMMIT_SEQNO] = table.column(COMMIT_SEQNO)
    return _prepend_columns(without_meta_columns(table), values)


def with_file_name(table: pa.Table, file_name: str) -> pa.Table:
    """Return rows for a new base file: all is kept except the file's name, which they may lack. It
    is a dictionary of one text: Parquet writes the same bytes in a third of the time.
    """
    at = META_COLUMNS.index(FILE_NAME)
    names = build_constant(pa.scalar(file_name, pa.string()), table.num_rows)
    if FILE_NAME in table.column_names:
        return table.set_column(at, pa.field(FILE_NAME, names.type), names)
    return table.add_column(at, pa.field(FILE_NAME, names.type), names)


def without_meta_columns(table: pa.Table) -> pa.Table:
    """Return the table without those of Hudi's five meta columns that it has."""
    present = [name for name in META_COLUMNS if name in table.column_names]
    return table.drop_columns(present) if present else table


def _prepend_columns(table: pa.Table, values: dict[str, StringColumn]) -> pa.Table:
    fields = [pa.field(name, pa.string()) for name in values]
    columns = [*values.values(), *table.columns]
    return pa.table(columns, schema=pa.schema([*fields, *table.schema]))


def _repeat_text(text: str, rows: int) -> StringArray:
    return pa.repeat(pa.scalar(text, pa.string()), rows)
