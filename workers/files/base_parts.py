"""An open base file: its footer immediately, its rows in batches, of chosen row groups and columns.
The reader chooses by the footer, and may return for other columns of the same rows.

Footers are kept for the next read: a base file is written once and never changes.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from workers.errors import MalformedTable
from workers.files.arrow_streams import OpenParquet, native, parquet_file
from workers.files.base_file import PART_ROWS, UNREADABLE, batch_rows
from workers.files.calendar import check_calendar
from workers.files.constant_columns import find_dictionary_texts
from workers.storage.base import Storage

_BYTES_MAX: Final = 32 << 20
"""The limit for all footers of one table, by their size in the files."""

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer, and what is derived from it once."""

    metadata: pq.FileMetaData
    dictionary_texts: frozenset[str]

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> Footer:
        """Return the footer with the text columns that are read as dictionaries."""
        schema = metadata.schema.to_arrow_schema()
        return cls(metadata, find_dictionary_texts(metadata, schema))


@dataclass(slots=True)
class Footers:
    """The footers of one table's base files by path and size, those used last. Thread-safe."""

    _kept: OrderedDict[_Key, Footer] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, path: str, size: int) -> Footer | None:
        """Return the footer of the file, or None if it is not known."""
        with self._lock:
            footer = self._kept.get((path, size))
            if footer is not None:
                self._kept.move_to_end((path, size))
            return footer

    def keep(self, path: str, size: int, footer: Footer) -> None:
        """Remember it, and forget the least recently used ones when there are too many."""
        with self._lock:
            if (path, size) not in self._kept:
                self._kept[path, size] = footer
                self._bytes += footer.metadata.serialized_size
            while self._bytes > _BYTES_MAX:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.metadata.serialized_size


@dataclass(frozen=True, slots=True)
class OpenBaseFile:
    """An open file that only the thread which opened it reads."""

    path: str
    file: OpenParquet
    stream: Any
    dictionary_texts: frozenset[str]
    rows_most: int
    """The limit of rows in a batch, computed once: a file may have a hundred thousand row
    groups.
    """

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer, with the file's row groups."""
        return self.file.metadata

    @property
    def stored(self) -> pa.Schema:
        """The file's columns as Arrow types."""
        return self.file.schema_arrow

    def parts(self, columns: Collection[str], row_groups: list[int]) -> Iterator[pa.Table]:
        """Yield the rows of these row groups, with those of `columns` that the file has, cut at the
        same rows whichever columns are read. Texts may be dictionaries: hand what is left of them
        to `decode_texts`. Raises MalformedTable.
        """
        if not row_groups:
            return
        try:
            file = self.file
            if texts := self.dictionary_texts.intersection(columns):
                file = parquet_file(self.stream, self.footer, read_dictionary=sorted(texts))
            cut: list[pa.RecordBatch] = []
            rows = 0
            for batch in file.iter_batches(
                self.rows_most, row_groups=row_groups, columns=sorted(columns), use_threads=False
            ):
                cut.append(batch)
                rows += batch.num_rows
                # Arrow also cuts where another dictionary begins.
                if rows >= self.rows_most:
                    yield _join_batches(cut)
                    cut, rows = [], 0
            if cut:
                yield _join_batches(cut)
        except UNREADABLE as error:
            raise _unreadable(self.path) from error


def _join_batches(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).replace_schema_metadata(None)


@contextmanager
def open_base_file(storage: Storage, path: str) -> Iterator[OpenBaseFile]:
    """Open the file for the duration of the block; its footer is read once and kept.

    Raises NotFound, MalformedTable, UnsupportedTable.
    """
    with storage.open_data(path) as opened, native(opened) as stream:
        try:
            footer = _footer(stream, path, storage.cache.of_kind(Footers))
            file = parquet_file(stream, footer.metadata)
            check_calendar(file)
        except UNREADABLE as error:
            raise _unreadable(path) from error
        rows_most = batch_rows(file, PART_ROWS)
        yield OpenBaseFile(path, file, stream, footer.dictionary_texts, rows_most)


def read_footer(storage: Storage, path: str) -> pq.FileMetaData:
    """Return only the footer. Raises as `open_base_file`."""
    with open_base_file(storage, path) as base:
        return base.footer


def _footer(stream: Any, path: str, footers: Footers) -> Footer:
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(0)
    footer = footers.of(path, size)
    if footer is None:
        footer = Footer.of(parquet_file(stream).metadata)
        footers.keep(path, size, footer)
    return footer


def _unreadable(path: str) -> MalformedTable:
    return MalformedTable("base file is not readable", path=path)
