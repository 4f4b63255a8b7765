"""Columns that a frame's schema declares `nullable=False`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from workers.errors import BadRows
from workers.lakehouse import LakehouseTable, create_table

pytestmark = pytest.mark.spark

OPTIONS = {"hoodie.write.markers.type": "direct"}


def schema(*, city_may_lack: bool) -> StructType:
    return StructType(
        [
            StructField("id", LongType(), False),
            StructField("city", StringType(), city_may_lack),
            StructField("size", IntegerType(), True),
        ]
    )


def frame(spark: SparkSession, rows: list[Any], *, city_may_lack: bool = True) -> DataFrame:
    return spark.createDataFrame(rows, schema(city_may_lack=city_may_lack))


def required(table: LakehouseTable) -> list[str]:
    schema = table.schema()
    assert schema is not None
    return [one.name for one in schema if not one.nullable]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("says", ["at creation", "by its first write"])
def test_what_a_frame_declares_required_is_enforced_with_column_and_key(
    says: str, tmp_path: Path, spark: SparkSession
) -> None:
    first = frame(spark, [(1, "Oslo", 1)], city_may_lack=False)
    declared = first.schema if says == "at creation" else None
    table = create_table(tmp_path / "t", name="t", schema=declared, record_key=["id"])
    table.write(first, options=OPTIONS)

    with pytest.raises(BadRows, match="required column holds null") as refused:
        table.write(frame(spark, [(3, "Rome", 1), (2, None, 1)]), options=OPTIONS)

    assert "column=city" in str(refused.value)
    assert "first_keys=['2']" in str(refused.value)
    assert "first_rows" not in str(refused.value)
    assert required(table) == ["id", "city"]
    assert table.read().to_pylist() == [{"id": 1, "city": "Oslo", "size": 1}]


def test_what_a_query_infers_declares_nothing_beside_a_schema_that_is_there(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = create_table(
        tmp_path / "t", name="t", schema=schema(city_may_lack=True), record_key=["id"]
    )
    rows = frame(spark, [(1, "Oslo", 1)], city_may_lack=False)

    table.write(rows.withColumn("note", lit("x")), options=OPTIONS)
    table.write(
        frame(spark, [(2, None, 1)]).withColumn("note", lit(None).cast("string")), options=OPTIONS
    )

    assert required(table) == ["id"]
    assert [one["note"] for one in table.read().sort_by("id").to_pylist()] == ["x", None]
