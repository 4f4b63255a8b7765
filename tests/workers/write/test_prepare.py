"""A batch made ready: keys as text, partitions as paths, buckets as Hudi counts them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, schema_of
from workers.errors import InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.write.prepare import SLOT, build_prepared_schema, prepare


def prepared(
    root: Path,
    batch: pa.Table,
    *,
    partition_by: list[str] | None = None,
    ordering: list[str] | None = None,
    options: dict[str, str] | None = None,
) -> pa.Table:
    table = ScenarioTable(
        root / "table",
        schema=None,
        partition_by=partition_by or [],
        ordering=ordering or [],
        options=options,
    )
    writer = table.writer("w").begin(batch.schema)
    try:
        prepared_rows = prepare(writer.transaction.context, batch)
        assert prepared_rows.schema == build_prepared_schema(writer.transaction.context)
        return prepared_rows
    finally:
        writer.abort()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (7, "7"),
        (-7, "-7"),
        ("k1", "k1"),
        ("é漢", "é漢"),
        ("a b", "a b"),
        ("a:b", "a:b"),
        ("a,b", "a,b"),
    ],
)
def test_key_is_stored_as_text(tmp_path: Path, key: object, text: str) -> None:
    prepared_rows = prepared(tmp_path, pa.table({"id": [key]}))

    assert prepared_rows.column(RECORD_KEY).to_pylist() == [text]


@pytest.mark.parametrize(("key", "bucket"), [("k1", 5), ("1", 0), ("user_001", 4), ("é漢", 0)])
def test_buckets_are_those_of_the_released_hudi(tmp_path: Path, key: str, bucket: int) -> None:
    assert prepared(tmp_path, pa.table({"id": [key]})).column(SLOT).to_pylist() == [bucket]


def test_key_on_which_hudi_never_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="never ends parsing"):
        prepared(tmp_path, pa.table({"id": ["a:b:c,d"]}))


def test_key_types_without_one_text_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="record key"):
        prepared(tmp_path, pa.table({"id": [1.5]}))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("oslo", "oslo"),
        (None, "__HIVE_DEFAULT_PARTITION__"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
        (3, "3"),
        (True, "true"),
        (date(2024, 1, 9), "2024-01-09"),
    ],
)
def test_partition_value_becomes_a_path(tmp_path: Path, value: object, path: str) -> None:
    types = {"id": pa.string(), "place": pa.string()} if value is None else None
    batch = pa.table({"id": ["a"], "place": [value]}, schema=pa.schema(types) if types else None)

    assert prepared(tmp_path, batch, partition_by=["place"]).column(PARTITION_PATH).to_pylist() == [
        path
    ]


def test_hive_style_is_spelled_as_hudi_does(tmp_path: Path) -> None:
    options = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    batch = pa.table({"id": ["a"], "place": ["oslo"]})

    prepared_rows = prepared(tmp_path, batch, partition_by=["place"], options=options)

    assert prepared_rows.column(PARTITION_PATH).to_pylist() == ["place=oslo"]


@pytest.mark.parametrize("value", ["../x", ".hoodie", "a/../b", "a'b", "a*b", "/x", "a//b", "x\n"])
def test_partition_value_that_leads_elsewhere_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidInput, match="partition"):
        prepared(tmp_path, pa.table({"id": ["a"], "place": [value]}), partition_by=["place"])


def test_null_keys_are_counted_and_named(tmp_path: Path) -> None:
    batch = pa.table({"id": ["a", None, "c", None]})

    with pytest.raises(InvalidInput, match=r"null.*rows=2 first_rows=\[1, 3\]"):
        prepared(tmp_path, batch)


def test_ordering_value_that_compares_with_nothing_is_refused(tmp_path: Path) -> None:
    batch = pa.table({"id": ["a"], "ts": [float("nan")]})

    with pytest.raises(InvalidInput, match="NaN"):
        prepared(tmp_path, batch, ordering=["ts"])


def test_meta_columns_of_a_batch_are_not_taken_over(tmp_path: Path) -> None:
    batch = pa.table({"id": ["a"], "_hoodie_record_key": ["forged"], "_hoodie_file_name": ["x"]})

    prepared_rows = prepared(tmp_path, batch)

    assert prepared_rows.column_names == ["id", RECORD_KEY, PARTITION_PATH, SLOT]
    assert prepared_rows.column(RECORD_KEY).to_pylist() == ["a"]


def test_every_type_makes_its_way_to_storage_and_back(tmp_path: Path) -> None:
    table = ScenarioTable(tmp_path / "table", schema=None, table_type="MERGE_ON_READ")
    batch = every_type()
    writer = table.writer("w", mode="optimistic").begin(batch.schema)
    writer.write_batch(batch)
    writer.wins()
    again = table.writer("w", mode="optimistic").begin(batch.schema)
    again.write_batch(batch.slice(0, 1))
    again.wins()

    table.judge()

    read: pa.Table = table.lakehouse.read()
    assert read.sort_by("id").to_pylist() == batch.to_pylist()


def every_type() -> pa.Table:
    rows: list[dict[str, Any]] = [
        {
            "id": 1,
            "small": -5,
            "ratio": 0.1,
            "flag": True,
            "text": "é漢",
            "raw": b"\x00\xff",
            "day": date(2024, 2, 29),
            "moment": 1_700_000_000_123_456,
            "price": "12.50",
            "tags": ["a", None],
            "point": {"x": 1, "y": None},
        },
        {"id": 2},
    ]
    schema = schema_of(
        id=pa.int64(),
        small=pa.int32(),
        ratio=pa.float64(),
        flag=pa.bool_(),
        text=pa.string(),
        raw=pa.binary(),
        day=pa.date32(),
        moment=pa.timestamp("us", "UTC"),
        price=pa.decimal128(10, 2),
        tags=pa.list_(pa.string()),
        point=pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())]),
    )
    columns = {
        field.name: (
            pa.array([row.get(field.name) for row in rows], pa.string()).cast(field.type)
            if pa.types.is_decimal(field.type)
            else pa.array([row.get(field.name) for row in rows], field.type)
        )
        for field in schema
    }
    return pa.table(columns, schema=schema)
