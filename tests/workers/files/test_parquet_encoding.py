"""Dictionaries where values repeat, at the paths that Parquet itself uses."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.files.base_file import read_parquet, write_parquet
from workers.files.parquet_encoding import repeating_columns

ROWS = 10_000
NESTED: list[pa.Field[Any]] = [
    pa.field("tags", pa.list_(pa.string())),
    pa.field("place", pa.struct([("city", pa.string()), ("at", pa.list_(pa.int32()))])),
    pa.field("counts", pa.map_(pa.string(), pa.int64())),
]


def table() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "key": [f"key-{number}" for number in numbers],
            "part": [f"part-{number // 5_000}" for number in numbers],
            "flag": [number % 2 == 0 for number in numbers],
            "nothing": pa.nulls(ROWS, pa.string()),
            "tags": pa.array([["a", "b"]] * ROWS, NESTED[0].type),
            "place": pa.array([{"city": "Oslo", "at": [1]}] * ROWS, NESTED[1].type),
            "counts": pa.array([[("a", 1)]] * ROWS, NESTED[2].type),
        }
    )


def test_only_repeating_columns_have_a_dictionary_in_the_file() -> None:
    stream = io.BytesIO()
    write_parquet(stream, table(), footer={}, codec="zstd", level=1)

    group = pq.ParquetFile(io.BytesIO(stream.getvalue())).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    has = {one.path_in_schema: one.has_dictionary_page for one in columns}

    assert {path for path, found in has.items() if not found} == {"key", "flag"}
    assert read_parquet(io.BytesIO(stream.getvalue())).equals(table())


def test_every_path_is_one_of_parquets_own() -> None:
    stream = io.BytesIO()
    pq.write_table(table(), stream)
    schema = pq.ParquetFile(io.BytesIO(stream.getvalue())).schema
    own = {schema.column(number).path for number in range(len(schema))}

    assert own == {*repeating_columns(table()), "key"}


def test_column_that_is_constant_only_at_first_is_judged_by_all_of_it() -> None:
    values = [0] * 100 + list(range(ROWS))

    assert repeating_columns(pa.table({"late": values})) == []
    assert repeating_columns(pa.table({"late": values}).slice(0, 0)) == ["late"]
