"""Rows as a file that somebody takes along: CSV for spreadsheets, JSON lines for programs, Parquet
for engines. A file comes piece by piece, so that no more than a page of its rows is held.

In CSV a text that a spreadsheet would take for a formula begins with an apostrophe (threat T18);
the two others have every text as it is.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

RowFormat = Literal["csv", "jsonl", "parquet"]
FORMATS: Final[tuple[RowFormat, ...]] = get_args(RowFormat)
CONTENT_TYPES: Final[Mapping[RowFormat, str]] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
MOMENT: Final = pa.timestamp("us", tz="UTC")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")
Row = Sequence[Any]
"""As long as the columns, of what JSON has words for."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file."""

    name: str
    type: pa.DataType
    """In Parquet; a `MOMENT` comes as ISO 8601, and what is nested becomes JSON in a text."""


def row_file(
    as_format: RowFormat, columns: Sequence[Column], pages: Iterable[Sequence[Row]]
) -> Iterator[bytes]:
    """The file in pieces; one without rows has its columns all the same."""
    match as_format:
        case "csv":
            return _csv_pieces(columns, pages)
        case "jsonl":
            return _json_pieces(columns, pages)
        case "parquet":
            schema = pa.schema([pa.field(column.name, column.type) for column in columns])
            return parquet_pieces(schema, (_as_table(columns, schema, rows) for rows in pages))


def parquet_pieces(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """A Parquet file with a row group of each table."""
    with TemporaryFile() as file:  # The writer goes by its place in the file.
        given = 0
        with pq.ParquetWriter(file, schema) as writer:
            for table in tables:
                writer.write_table(table)
                yield _since(given, file)
                given = file.tell()
        yield _since(given, file)


def defused(text: str) -> str:
    """The text as a cell that no spreadsheet computes."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def csv_line(row: Row) -> str:
    """The row with every text defused; what is nested as JSON."""
    line = io.StringIO()
    csv.writer(line).writerow([_cell(content) for content in row])
    return line.getvalue()


def _since(begin: int, file: IO[bytes]) -> bytes:
    """What was written from there on; the file stands at its end again."""
    file.seek(begin)
    return file.read()


def _csv_pieces(columns: Sequence[Column], pages: Iterable[Sequence[Row]]) -> Iterator[bytes]:
    yield csv_line([column.name for column in columns]).encode()
    for rows in pages:
        yield "".join(map(csv_line, rows)).encode()


def _json_pieces(columns: Sequence[Column], pages: Iterable[Sequence[Row]]) -> Iterator[bytes]:
    names = [column.name for column in columns]
    for rows in pages:
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        yield "".join(f"{line}\n" for line in lines).encode()


def _as_table(columns: Sequence[Column], schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    arrays = [
        pa.array([_typed(row[place], column.type) for row in rows], column.type)
        for place, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _typed(content: Any, kind: pa.DataType) -> Any:
    if content is None:
        return None
    if kind == MOMENT:
        return datetime.fromisoformat(content)
    if pa.types.is_string(kind) and not isinstance(content, str):
        return json.dumps(content, sort_keys=True)
    return content


def _cell(content: Any) -> str:
    if content is None:
        return ""
    return defused(content) if isinstance(content, str) else json.dumps(content, sort_keys=True)
