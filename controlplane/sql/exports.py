"""Rows as a file: CSV for spreadsheets, JSON lines and Parquet for programs; the formats of all
lists (`row_files`).

In CSV a text that a spreadsheet would take for a formula begins with an apostrophe (threat T18);
the others have every value as it is.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.row_files import FORMATS, RowFormat, csv_line
from controlplane.sql.cells import cells


def format_named(text: str) -> RowFormat:
    """CSV for what names none."""
    return next((known for known in FORMATS if known == text), "csv")


def rows_file(rows: pa.Table, file_format: RowFormat) -> bytes:
    """The file. Columns of one name get numbers behind it."""
    rows = rows.rename_columns(_unique(rows.column_names))
    if file_format == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(rows.replace_schema_metadata(None), sink)
        return sink.getvalue().to_pybytes()
    names = rows.column_names
    if file_format == "jsonl":
        objects = (dict(zip(names, row, strict=True)) for row in cells(rows))
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in objects).encode()
    lines = (csv_line([_flat(cell) for cell in row]) for row in cells(rows))
    return "".join([csv_line(names), *lines]).encode()


def _flat(cell: Any) -> Any:
    """What is nested as JSON that a person can read."""
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, (dict, list)) else cell


def _unique(names: list[str]) -> list[str]:
    taken: dict[str, int] = {}
    unique = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        unique.append(name if taken[name] == 1 else f"{name}_{taken[name]}")
    return unique
