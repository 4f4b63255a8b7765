"""Dictionaries where values repeat, at the paths that Parquet itself uses."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.files import constant_columns
from workers.files.arrow_streams import OpenParquet
from workers.files.base_file import choose_row_group_rows, read_parquet, write_parquet
from workers.files.base_parts import open_base_file
from workers.files.constant_columns import decode_texts, find_dictionary_texts, repeating_columns
from workers.storage.local import LocalStorage

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


def dictionary_file(path: Path, texts: Sequence[str | None]) -> OpenParquet:
    pq.write_table(pa.table({"text": texts, "number": range(len(texts))}), path, row_group_size=100)
    return pq.ParquetFile(path)


def test_texts_with_a_dictionary_are_read_as_one_and_decoded_to_the_same(tmp_path: Path) -> None:
    some = [f"text {number % 11 + number // 100}" for number in range(1_000)]
    texts = [None if number % 7 == 0 else text for number, text in enumerate(some)]
    file = dictionary_file(tmp_path / "a.parquet", texts)

    texts_found = find_dictionary_texts(file.metadata, file.schema_arrow)
    read = pq.read_table(tmp_path / "a.parquet", read_dictionary=sorted(texts_found))

    assert texts_found == {"text"}
    assert pa.types.is_dictionary(read.schema.field("text").type)
    assert decode_texts(read).equals(pa.table({"text": texts, "number": range(1_000)}))


def test_texts_that_all_differ_are_read_as_they_are(tmp_path: Path) -> None:
    file = dictionary_file(tmp_path / "a.parquet", [f"text number {n}" for n in range(1_000)])

    assert find_dictionary_texts(file.metadata, file.schema_arrow) == set()


def test_more_text_than_one_array_holds_is_decoded_into_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constant_columns, "_ARRAY_BYTES", 10)
    rows = pa.table({"text": pa.array(["four", "4", None, "four"] * 5).dictionary_encode()})

    decoded = decode_texts(rows)

    assert decoded.column("text").num_chunks == 10
    assert decoded.to_pylist() == rows.to_pylist()


def test_wide_files_have_fewer_row_groups() -> None:
    assert [choose_row_group_rows(columns) for columns in (1, 64, 65, 512, 3_600)] == [
        16_384, 16_384, 32_768, 131_072, 131_072,
    ]  # fmt: skip


@pytest.mark.parametrize("rows_most", [40, 100, 250])
def test_rows_are_cut_at_the_same_places_whichever_columns_are_read(
    tmp_path: Path, rows_most: int
) -> None:
    texts = [f"text {number % 11 + number // 100}" for number in range(1_000)]
    dictionary_file(tmp_path / "a.parquet", texts)
    with open_base_file(LocalStorage(tmp_path), "a.parquet") as opened:
        base = replace(opened, rows_most=rows_most)
        cuts = {
            columns: [part.num_rows for part in base.parts(columns, [1, 2, 3, 5])]
            for columns in (("text",), ("number",), ("text", "number"))
        }

    assert len({tuple(rows) for rows in cuts.values()}) == 1
    assert sum(cuts["text",]) == 400
