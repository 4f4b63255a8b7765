"""Footers of base files, kept for the next read: such a file is written once and never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import pyarrow.parquet as pq

from workers.files.constant_columns import find_dictionary_texts

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
