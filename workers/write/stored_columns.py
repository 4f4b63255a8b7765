"""The columns that the visible data files of a table hold, whatever its current schema is."""

from __future__ import annotations

from workers.files.arrow_streams import parquet_schema
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.timeline import Timeline


def find_stored_columns(table: Table, timeline: Timeline) -> set[str]:
    """Return the columns of all data files that a reader of `timeline` sees, in lower case.

    Raises MalformedTable for a file that cannot be read.
    """
    names: set[str] = set()
    for slice_ in FileSystemView.load(table, timeline=timeline).slices:
        if slice_.base_file:
            names.update(_base_names(table.storage, slice_.base_file))
        for path in slice_.log_files:
            for block in read_log_file(table.storage, path):
                if isinstance(block, ParquetData | AvroData):
                    names.update(block.field_names)
    return {name.lower() for name in names}


def _base_names(storage: Storage, path: str) -> list[str]:
    with storage.open_data(path) as stream:
        return list(parquet_schema(stream).names)
