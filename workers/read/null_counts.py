"""Null counts of columns, by the statistics of base files alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from workers.errors import NotFound
from workers.files.base_parts import read_footer
from workers.read.undisturbed import expired
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

FILES_MAX = 200
"""Base files whose footers are read."""


@dataclass(frozen=True, slots=True)
class NullCounts:
    """What the footers of base files contain."""

    nulls: dict[str, int | None]
    """By column. None where statistics do not count them, as in nested columns."""
    rows: int
    files_read: int
    files: int
    log_files: int
    """Log files of the same slices. Their rows are not counted."""


def count_nulls(storage: Storage, schema: pa.Schema, slices: Iterable[FileSlice]) -> NullCounts:
    """Read the footers of up to FILES_MAX base files. A column that a file lacks is null in it.

    Raises SnapshotExpired where a file is gone, MalformedTable, UnsupportedTable.
    """
    slices = list(slices)
    paths = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
    nulls: dict[str, int | None] = {
        field.name: None if pa.types.is_nested(field.type) else 0 for field in schema
    }
    rows = 0
    for path in paths[:FILES_MAX]:
        try:
            footer = read_footer(storage, path)
        except NotFound as error:
            raise expired(error) from error
        rows += footer.num_rows
        _add(nulls, footer)
    logs = sum(len(slice_.log_files) for slice_ in slices)
    return NullCounts(nulls, rows, min(len(paths), FILES_MAX), len(paths), logs)


def _add(nulls: dict[str, int | None], footer: pq.FileMetaData) -> None:
    columns = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for name, count in nulls.items():
        if count is None:
            continue
        if name not in columns:
            nulls[name] = count + footer.num_rows
            continue
        for number in range(footer.num_row_groups):
            statistics = footer.row_group(number).column(columns[name]).statistics
            if statistics is None or statistics.null_count is None:
                nulls[name] = None
                break
            count += statistics.null_count
            nulls[name] = count
