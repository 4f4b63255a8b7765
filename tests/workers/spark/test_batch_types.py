"""Frames whose types are not the table's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import create_table

pytestmark = pytest.mark.spark


def test_a_frame_is_converted_value_by_value(tmp_path: Path, spark: SparkSession) -> None:
    columns: dict[str, pa.DataType] = {
        "id": pa.string(),
        "n": pa.int64(),
        "price": pa.decimal128(10, 2),
        "day": pa.date32(),
        "some": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    }
    schema = pa.schema(list(columns.items()))
    table = create_table(tmp_path / "t", name="t", schema=schema, record_key=["id"])
    frame = spark.sql(
        "SELECT 'a' AS id, 2.0D AS n, 9.99D AS price, timestamp_ntz'2026-01-02 00:00:00' AS day,"
        " named_struct('a', NULL, 'b', 'x', 'c', NULL) AS some, NULL AS nothing"
    )

    outcome = table.write(frame)

    assert isinstance(outcome, Committed)
    assert outcome.warnings[0].endswith("left out: columns=2 first=some.c,nothing")
    (row,) = table.read(columns=list(schema.names)).to_pylist()
    assert row == {
        "id": "a",
        "n": 2,
        "price": Decimal("9.99"),
        "day": dt.date(2026, 1, 2),
        "some": {"a": None, "b": "x"},
    }
    with pytest.raises(InvalidInput, match=r"cannot hold: column=n why=it is not a whole number"):
        table.write(spark.sql("SELECT 'b' AS id, 2.5D AS n"))
