"""Base files: meta columns as Hudi has them, footers as Hudi looks for them."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.base_files import write_base_file
from tests.workers.files.conftest import OpenGolden
from workers.errors import InvalidInput, MalformedTable, NotFound
from workers.files.base_file import (
    choose_row_group_rows,
    highest_in_base_file,
    read_base_file,
    read_footer,
    write_base_parts,
)
from workers.files.calendar import PROLEPTIC
from workers.files.meta_columns import (
    COMMIT_TIME,
    META_COLUMNS,
    RECORD_KEY,
    with_file_name,
    with_meta_columns,
    without_meta_columns,
)
from workers.files.names import parse_base_file
from workers.schema.reconcile import conform
from workers.schema.table_schema import TableSchema
from workers.storage.local import LocalStorage

INSTANT = "20260101000000001"
NAME = f"00000003-0000-0000-0000-000000000000-0_4-0-1_{INSTANT}.parquet"
EVERY_TYPE = pa.table(
    {
        "id": pa.array(["b", "a"]),
        "flag": pa.array([True, None]),
        "small": pa.array([1, None], pa.int32()),
        "big": pa.array([2**53 + 1, None]),
        "single": pa.array([0.5, None], pa.float32()),
        "double": pa.array([0.1, None]),
        "raw": pa.array([b"\x00\xff", None]),
        "day": pa.array([dt.date(2026, 1, 2), None]),
        "millis": pa.array([1, None], pa.timestamp("ms", "UTC")),
        "micros": pa.array([1, None], pa.timestamp("us", "UTC")),
        "local": pa.array([1, None], pa.timestamp("us")),
        "price": pa.array([Decimal("12345.67"), None], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(10**37), None], pa.decimal128(38, 0)),
        "tags": pa.array([["x", None], None], pa.list_(pa.string())),
        "counts": pa.array([[("k", 1), ("l", None)], None], pa.map_(pa.string(), pa.int64())),
        "place": pa.array([{"city": "Oslo", "at": [1.5]}, None]),
    }
)


def written(storage: LocalStorage, rows: pa.Table = EVERY_TYPE) -> pa.Table:
    schema = TableSchema.from_arrow(rows.schema, table_name="t")
    table = with_meta_columns(
        conform(rows, schema),
        instant=INSTANT,
        keys=rows.column("id"),
        partition="region=eu",
        file_name=NAME,
        task_partition=4,
    )
    size = write_base_file(storage, NAME, table, avro_schema=schema.with_meta_avro())
    assert (info := storage.info(NAME)) is not None
    assert info.size == size
    return table


def test_every_type_is_read_back_as_it_was_written(storage: LocalStorage) -> None:
    table = written(storage)

    assert read_base_file(storage, NAME).to_pylist() == table.to_pylist()
    assert read_base_file(storage, NAME).schema == table.schema
    assert without_meta_columns(table).to_pylist() == EVERY_TYPE.to_pylist()


@pytest.mark.parametrize(
    ("column", "highest"),
    [
        ("small", 1),
        ("big", 2**53 + 1),
        ("day", (dt.date(2026, 1, 2) - dt.date(1970, 1, 1)).days),
        ("millis", 1),
        ("micros", 1),
        ("local", 1),
        ("id", None),
        ("flag", None),
        ("double", None),
        ("price", None),
        ("tags", None),
    ],
)
def test_the_footer_tells_the_greatest_of_what_is_counted(
    storage: LocalStorage, column: str, highest: int | None
) -> None:
    written(storage)

    assert highest_in_base_file(storage, NAME, EVERY_TYPE.schema.field(column)) == highest
    assert highest_in_base_file(storage, NAME, pa.field(column, pa.int8())) is None
    assert highest_in_base_file(storage, NAME, pa.field("absent", pa.int64())) is None


def test_the_footer_tells_hudi_the_schema_and_the_key_range_and_nothing_of_arrow(
    storage: LocalStorage,
) -> None:
    written(storage)

    footer = pq.ParquetFile(io.BytesIO(storage.read(NAME))).metadata.metadata or {}

    avro = json.loads(footer[b"parquet.avro.schema"])
    assert [field["name"] for field in avro["fields"][:5]] == list(META_COLUMNS)
    assert footer[b"hoodie_min_record_key"] == b"a"
    assert footer[b"hoodie_max_record_key"] == b"b"
    assert b"ARROW:schema" not in footer


def test_new_rows_carry_the_commit_that_wrote_them(storage: LocalStorage) -> None:
    rows = written(storage).select(META_COLUMNS).to_pylist()

    assert [list(row.values()) for row in rows] == [
        [INSTANT, f"{INSTANT}_4_0", "b", "region=eu", NAME],
        [INSTANT, f"{INSTANT}_4_1", "a", "region=eu", NAME],
    ]


def test_copied_rows_keep_their_commit_and_take_the_new_files_name(storage: LocalStorage) -> None:
    before = written(storage)

    after = with_file_name(before, "next.parquet")

    assert after.column("_hoodie_file_name").to_pylist() == ["next.parquet"] * 2
    assert after.drop_columns(["_hoodie_file_name"]) == before.drop_columns(["_hoodie_file_name"])


def test_rows_that_were_read_from_a_table_lose_their_old_meta_columns(
    storage: LocalStorage,
) -> None:
    old = written(storage)

    new = with_meta_columns(
        old,
        instant="20260101000000002",
        keys=old.column(RECORD_KEY),
        partition="",
        file_name="f",
        task_partition=0,
        first_row=10,
    )

    assert new.column_names == old.column_names
    assert new.column("_hoodie_commit_seqno").to_pylist()[1] == "20260101000000002_0_11"


def test_a_file_without_rows_is_whole(storage: LocalStorage) -> None:
    table = written(storage, EVERY_TYPE.slice(0, 0))

    assert read_base_file(storage, NAME).schema == table.schema
    assert read_base_file(storage, NAME).num_rows == 0


def test_only_the_named_columns_are_read_and_absent_ones_are_left_out(
    storage: LocalStorage,
) -> None:
    written(storage)

    rows = read_base_file(storage, NAME, ["place", "id", "no_such_column"])

    assert rows.column_names == ["place", "id"]


def test_a_data_file_is_written_once(storage: LocalStorage) -> None:
    before = written(storage)

    with pytest.raises(InvalidInput):
        written(storage, EVERY_TYPE.slice(0, 1))

    assert read_base_file(storage, NAME).num_rows == before.num_rows


def test_a_torn_file_is_named_and_a_missing_one_is_missing(storage: LocalStorage) -> None:
    written(storage)
    storage.put("torn.parquet", storage.read(NAME)[:-20])

    with pytest.raises(MalformedTable, match=r"torn\.parquet"):
        read_base_file(storage, "torn.parquet")
    with pytest.raises(NotFound):
        read_base_file(storage, "gone.parquet")


def test_every_base_file_that_hudi_wrote_is_read_with_its_keys(golden: OpenGolden) -> None:
    storage = golden("cow-v8_complexkeygen_hivestyle")
    files = [info for info in storage.list_tree("") if parse_base_file(info.name)]

    rows = [row for info in files for row in read_base_file(storage, info.path).to_pylist()]

    assert len(files) == 4
    assert {row["_hoodie_file_name"] for row in rows} <= {info.name for info in files}
    assert {row["_hoodie_record_key"] for row in rows} >= {"id:1,name:Alice", "id:2,name:Bob"}
    assert rows[0]["arrayField"][0].keys() == {"arr_struct_f1", "arr_struct_f2"}
    assert isinstance(rows[0]["decimalField"], Decimal)


@pytest.mark.parametrize("times", [["1", "1", "1"], ["1", "1", "2"], ["1", "2", "2"]])
def test_texts_that_repeat_are_spelled_once_and_the_pages_are_the_same_byte_for_byte(
    storage: LocalStorage, times: list[str]
) -> None:
    plain = with_meta_columns(
        pa.table({"id": ["a", "b", "c"], "city": ["Oslo", "Oslo", None]}), instant="1",
        keys=pa.array(["a", "b", "c"]), partition="p", file_name="f.parquet", task_partition=0,
    ).set_column(0, COMMIT_TIME, pa.array(times))  # fmt: skip
    groups = [plain.take(pa.array(at * 65_536)) for at in ([0, 0], [1, 1], [1, 2])]
    parts = [with_file_name(group, "f.parquet") for group in groups]
    write_base_parts(storage, "once.parquet", parts, avro_schema={})
    footer = {k: v for k, v in read_footer(storage, "once.parquet").items() if k not in PROLEPTIC}

    spelled_out = io.BytesIO()
    with pq.ParquetWriter(
        spelled_out, plain.schema, compression="zstd", compression_level=1, store_schema=False,
        use_dictionary=True,
    ) as writer:  # fmt: skip
        for group in groups:
            writer.write_table(group, choose_row_group_rows(7))
        writer.add_key_value_metadata(PROLEPTIC | footer)

    assert pages_of(storage.read("once.parquet")) == pages_of(spelled_out.getvalue())


def pages_of(content: bytes) -> tuple[bytes, list[Any]]:
    """What stands before the footer, whose texts have no order, and what it says of that."""
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    row_groups = [metadata.row_group(at).to_dict() for at in range(metadata.num_row_groups)]
    return content[: -8 - int.from_bytes(content[-8:-4], "little")], row_groups
