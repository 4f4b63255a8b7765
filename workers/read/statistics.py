"""What is known of the columns of base files before their rows are read.

`StatisticsSource` is the port: footers are one source of it. Whatever a source does not know may be
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from workers.files.base_parts import read_footer
from workers.storage.base import Storage


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column in some rows."""

    lowest: Any = None
    """With `highest` None where no bounds are known. NaN is in no bounds."""
    highest: Any = None
    has_nulls: bool = True
    """False only where it is known that there is none."""
    has_values: bool = True
    """False only where it is known that all are null."""


@dataclass(frozen=True, slots=True)
class RowsKnown:
    """Rows that are read together or not at all, such as a row group."""

    number: int
    rows: int
    bytes_of: dict[str, int]
    """Of each top-level column, as stored."""
    bounds: dict[str, ColumnBounds]
    """Of columns that are not nested, where something is known."""


@dataclass(frozen=True, slots=True)
class FileKnown:
    """A base file: its columns as stored, and its rows group by group."""

    stored: pa.Schema
    groups: tuple[RowsKnown, ...]


class StatisticsSource(Protocol):
    """Answers for base files by their paths below the table."""

    def of_file(self, path: str, columns: Sequence[str]) -> FileKnown | None:
        """What is known of these columns; None for a file of which nothing is. Raises NotFound,
        MalformedTable.
        """


@dataclass(frozen=True, slots=True)
class FooterStatistics:
    """Statistics from the footers themselves, which are kept for the read that follows."""

    storage: Storage

    def of_file(self, path: str, columns: Sequence[str]) -> FileKnown | None:
        """Never None. Raises NotFound, MalformedTable, UnsupportedTable."""
        return known_by(read_footer(self.storage, path), columns)


def known_by(footer: pq.FileMetaData, columns: Sequence[str]) -> FileKnown:
    """What a footer says of these columns."""
    wanted = set(columns)
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    places = [(at, path) for at, path in enumerate(paths) if _top(path) in wanted]
    groups = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        bytes_of: dict[str, int] = {}
        bounds: dict[str, ColumnBounds] = {}
        for at, path in places:
            chunk = group.column(at)
            name = _top(path)
            bytes_of[name] = bytes_of.get(name, 0) + chunk.total_compressed_size
            if path in wanted:
                bounds[path] = _bounds(chunk)
        groups.append(RowsKnown(number, group.num_rows, bytes_of, bounds))
    return FileKnown(footer.schema.to_arrow_schema(), tuple(groups))


def _top(path: str) -> str:
    return path.partition(".")[0]


def _bounds(chunk: pq.ColumnChunkMetaData) -> ColumnBounds:
    statistics: Any = chunk.statistics
    if statistics is None:
        return ColumnBounds()
    counts = statistics.has_null_count
    has_nulls = not (counts and statistics.null_count == 0)
    has_values = not (counts and statistics.null_count == chunk.num_values)
    if not statistics.has_min_max:
        return ColumnBounds(has_nulls=has_nulls, has_values=has_values)
    try:
        return ColumnBounds(statistics.min, statistics.max, has_nulls, has_values)
    except (pa.ArrowException, ValueError, OverflowError):
        return ColumnBounds(has_nulls=has_nulls, has_values=has_values)  # Python has no such value.
