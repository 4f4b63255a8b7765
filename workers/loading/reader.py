"""One reader for every entry point: files of rows as Arrow batches of the table's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from workers.loading.bad_row import BadRow
from workers.loading.counts import LoadCounts
from workers.loading.options import LoadOptions

__all__ = ["BadRow", "InputFile", "LoadCounts", "LoadOptions", "RowSource"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: by its path, or an open binary stream with a name for messages."""

    name: str
    path: Path | None = None
    stream: BinaryIO | None = None


class RowSource(Protocol):
    """Rows of files, decoded while they are iterated; each iteration starts anew."""

    @property
    def schema(self) -> pa.Schema:
        """Columns as they will be stored."""
        ...

    @property
    def counts(self) -> LoadCounts:
        """Numbers of the last iteration, whole when it has ended."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


class OpenRows(Protocol):
    """What `open_rows` will be."""

    def __call__(
        self,
        files: Sequence[str | Path | InputFile],
        options: LoadOptions,
        table_schema: pa.Schema | None = None,
    ) -> AbstractContextManager[RowSource]: ...
