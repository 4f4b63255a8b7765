"""Random tables, written as CSV, JSON lines and Parquet by Python and loaded, are the same rows."""

from __future__ import annotations

import csv
import datetime as dt
import json
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.files.meta_columns import META_COLUMNS
from workers.lakehouse import create_table
from workers.loading.options import LoadOptions
from workers.loading.reader import open_rows, read_rows

_DAY = dt.date(2026, 1, 1)
_TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_TEXTS = (
    "",
    "NA",
    "null",
    "007",
    "a,b",
    'quote "x"',
    "two\nlines",
    " blank ",
    "é",
    "\\n",
    "1e5",
    "\t",
)
SCALARS: Final[Mapping[str, pa.DataType]] = {
    "text": pa.string(),
    "whole": pa.int64(),
    "small": pa.int32(),
    "number": pa.float64(),
    "cents": pa.decimal128(12, 2),
    "long": pa.decimal128(38, 0),
    "is_on": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
NESTED: Final[Mapping[str, pa.DataType]] = {
    "list": pa.list_(pa.int64()),
    "struct": pa.struct([("a", pa.string()), ("b", pa.list_(pa.float64()))]),
}


def draw_value(kind: Any, dice: random.Random, depth: int = 0) -> Any:
    if dice.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [draw_value(kind.value_type, dice, depth + 1) for _ in range(dice.randint(0, 3))]
    if pa.types.is_struct(kind):
        return {child.name: draw_value(child.type, dice, depth + 1) for child in kind}
    if pa.types.is_string(kind):
        return dice.choice(_TEXTS)
    if pa.types.is_integer(kind):
        half = 2 ** (kind.bit_width - 1)
        return dice.choice([0, -1, half - 1, -half, dice.randint(-1000, 1000)])
    if pa.types.is_floating(kind):
        return dice.choice([0.1, -2.5, 1e300, 5e-324, 2.0**53, dice.random(), 7.0])
    if pa.types.is_decimal(kind):
        digits = dice.randint(1, kind.precision)
        return Decimal(dice.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-kind.scale, None)
    if pa.types.is_boolean(kind):
        return dice.random() < 0.5
    if pa.types.is_date32(kind):
        return _DAY + dt.timedelta(days=dice.randint(-700_000, 2_900_000))
    return _TIME + dt.timedelta(microseconds=dice.randint(-(10**16), 10**16))


def draw_rows(schema: pa.Schema, dice: random.Random, count: int) -> list[dict[str, Any]]:
    rows = [{field.name: draw_value(field.type, dice) for field in schema} for _ in range(count)]
    return [{**row, "id": f"{at:06}"} for at, row in enumerate(rows)]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([_spell(value) for value in row.values()])


def _spell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, dt.date) else value


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write lines of JSON. Numbers with many digits are texts there, as in most APIs."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, default=_plain) + "\n" for row in rows)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value.isoformat()


def load(path: Path, schema: pa.Schema, folder: Path) -> list[dict[str, Any]]:
    table = create_table(folder / path.name, name="t", schema=schema, record_key=["id"])
    options = LoadOptions(null_words=())
    table.write(read_rows(open_rows([path], options, schema, keys=["id"])))
    rows = table.read()
    names = [name for name in rows.column_names if name not in META_COLUMNS]
    return sorted(rows.select(names).to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 60), pytest.param(2, 5_000, marks=pytest.mark.slow)]
)
def test_scalars_are_the_same_in_each_format(tmp_path: Path, seed: int, count: int) -> None:
    schema = pa.schema([("id", pa.string()), *SCALARS.items()])
    rows = draw_rows(schema, random.Random(seed), count)
    write_csv(tmp_path / "rows.csv", rows)
    write_json(tmp_path / "rows.jsonl", rows)
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "rows.parquet")

    assert load(tmp_path / "rows.parquet", schema, tmp_path / "tables") == rows
    assert load(tmp_path / "rows.jsonl", schema, tmp_path / "tables") == rows
    # An empty text and a missing one are spelled alike in a CSV of Python.
    empty = [{**row, "text": row["text"] or None} for row in rows]
    assert load(tmp_path / "rows.csv", schema, tmp_path / "tables") == empty


@pytest.mark.parametrize(
    ("seed", "count"), [(3, 60), pytest.param(4, 5_000, marks=pytest.mark.slow)]
)
def test_nested_values_are_the_same_in_each_format(tmp_path: Path, seed: int, count: int) -> None:
    schema = pa.schema([("id", pa.string()), *NESTED.items()])
    rows = draw_rows(schema, random.Random(seed), count)
    write_json(tmp_path / "rows.jsonl", rows)
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "rows.parquet")

    assert load(tmp_path / "rows.parquet", schema, tmp_path / "tables") == rows
    assert load(tmp_path / "rows.jsonl", schema, tmp_path / "tables") == rows
