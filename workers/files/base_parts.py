"""A base file that is open: its footer at once, its rows some at a time, of chosen row groups and
columns. Whoever reads chooses by the footer, and may come back for other columns of the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.errors import MalformedTable
from workers.files.arrow_streams import OpenParquet, native, parquet_file
from workers.files.base_file import ROW_GROUP_ROWS, UNREADABLE, batch_rows
from workers.files.calendar import check_calendar
from workers.files.footers import Footers
from workers.storage.base import Storage


@dataclass(frozen=True, slots=True)
class OpenBaseFile:
    """Read by the thread that asks and no other."""

    path: str
    file: OpenParquet
    rows_most: int
    """Of a batch. Worked out once: a file may have a hundred thousand row groups."""

    @property
    def footer(self) -> pq.FileMetaData:
        """What the file says of its row groups."""
        return self.file.metadata

    @property
    def stored(self) -> pa.Schema:
        """The file's columns as Arrow sees them."""
        return self.file.schema_arrow

    def parts(self, columns: Collection[str], row_groups: list[int]) -> Iterator[pa.Table]:
        """The rows of these row groups, with those of `columns` that the file has; cut at the same
        rows whichever columns are read. Raises MalformedTable.
        """
        if not row_groups:
            return
        try:
            for batch in self.file.iter_batches(
                self.rows_most, row_groups=row_groups, columns=sorted(columns), use_threads=False
            ):
                yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
        except UNREADABLE as error:
            raise _unreadable(self.path) from error


@contextmanager
def open_base_file(storage: Storage, path: str) -> Iterator[OpenBaseFile]:
    """The file, for as long as the block runs; its footer is read once and kept.

    Raises NotFound, MalformedTable, UnsupportedTable.
    """
    with storage.open_data(path) as opened, native(opened) as stream:
        try:
            file = _opened(stream, path, storage.remembered.of_kind(Footers))
            check_calendar(file)
        except UNREADABLE as error:
            raise _unreadable(path) from error
        yield OpenBaseFile(path, file, batch_rows(file, ROW_GROUP_ROWS))


def read_footer_of(storage: Storage, path: str) -> pq.FileMetaData:
    """The footer alone. Raises as `open_base_file`."""
    with open_base_file(storage, path) as base:
        return base.footer


def _opened(stream: Any, path: str, footers: Footers) -> OpenParquet:
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(0)
    if (footer := footers.of(path, size)) is not None:
        return parquet_file(stream, footer)
    file = parquet_file(stream)
    footers.keep(path, size, file.metadata)
    return file


def _unreadable(path: str) -> MalformedTable:
    return MalformedTable("base file is not readable", path=path)
