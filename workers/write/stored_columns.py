"""The columns that the visible data files of a table hold, whatever its current schema is, and a
check for stored rows that hold null in a column, or lack it, before the column becomes required.

The check reads all versions that the current file slices hold, also those that a merge hides: other
engines decode each of them under the schema of the table. Older slices, which only time travel
reads, keep the schema of their time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.concurrency.conflicts import Conflict
from workers.errors import InvalidInput, MalformedTable
from workers.files.arrow_streams import parquet_schema
from workers.files.base_file import UNREADABLE, iterate_base_file
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import RECORD_KEY
from workers.read.log_versions import LogReader
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.timeline import Timeline

_KEYS_NAMED_MAX = 5


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


@dataclass(slots=True)
class _Lacking:
    rows: int = 0
    keys: tuple[str, ...] = ()

    def add(self, keys: Sequence[str]) -> None:
        self.rows += len(keys)
        self.keys = (*self.keys, *keys)[:_KEYS_NAMED_MAX]


class NullCheck:
    """A check of the columns that an alter makes required. A slice is read once: first outside the
    table lock, then under it what came since.
    """

    def __init__(self, table: Table, schema: TableSchema, refusals: Mapping[str, str]) -> None:
        """Create the check. `refusals`: column -> the message if stored rows lack it."""
        self._table = table
        self._reader = LogReader(table.storage, table.config, schema)
        self._refusals = refusals
        self._passed: set[FileSlice] = set()

    def check(self, timeline: Timeline) -> None:
        """Look for nulls in stored rows of columns that become required.

        Raises InvalidInput naming the first column that rows lack, with their count and keys;
        NotFound, MalformedTable.
        """
        if not self._refusals:
            return
        slices = FileSystemView.load(self._table, timeline=timeline).slices
        new = [slice_ for slice_ in slices if slice_ not in self._passed]
        for column, refusal in self._refusals.items():
            lacking = _Lacking()
            for keys in self._table.storage.at_once(partial(self._keys, column), new):
                lacking.add(keys)
            if lacking.rows:
                named = list(lacking.keys)
                raise InvalidInput(refusal, column=column, rows=lacking.rows, first_keys=named)
        self._passed.update(new)

    def check_under_lock(self, timeline: Timeline) -> Conflict | dict[str, str]:
        """Run `check` as the condition of a commit: it adds nothing to the metadata."""
        self.check(timeline)
        return {}

    def _keys(self, column: str, slice_: FileSlice) -> list[str]:
        keys: list[str] = []
        if slice_.base_file is not None:
            keys += _base_keys(self._table.storage, slice_.base_file, column)
        for block in self._reader.blocks(slice_):
            if isinstance(block, ParquetData | AvroData):
                keys += _keys_without(block.table([RECORD_KEY, column]), column)
        return keys


def _base_keys(storage: Storage, path: str, column: str) -> Iterator[str]:
    with storage.open_data(path) as stream:
        try:
            is_there = column in parquet_schema(stream).names
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error
    names = [column] if is_there else []
    # Keys are larger than most columns, and mostly nothing is missing.
    if is_there and not any(
        batch.column(column).null_count for batch in iterate_base_file(storage, path, names)
    ):
        return
    for part in iterate_base_file(storage, path, [RECORD_KEY, *names]):
        yield from _keys_without(part, column)


def _keys_without(rows: pa.Table, column: str) -> list[str]:
    keys: Any = rows.column(RECORD_KEY)
    if column in rows.column_names:
        keys = keys.filter(pc.is_null(rows.column(column)))
    key_texts: list[str] = keys.to_pylist()
    return key_texts
