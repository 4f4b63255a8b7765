"""Partitions made of times, written by Spark's tasks: the same paths as in this process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table

pytestmark = pytest.mark.spark

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64(), "place": pa.string()}
SCHEMA = pa.schema(_TYPES)
OPTIONS = {
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd HH",
    "hoodie.keygen.timebased.timezone": "Asia/Tokyo",
}
DIRECT = {"hoodie.write.markers.type": "direct"}


def created(where: Path) -> LakehouseTable:
    return create_table(
        where,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place:SIMPLE", "at:TIMESTAMP"],
        options=OPTIONS,
    )


def partitions(where: Path) -> set[str]:
    marks = where.rglob(".hoodie_partition_metadata")
    return {str(mark.parent.relative_to(where)) for mark in marks}


@pytest.mark.slow
def test_frame_and_arrow_table_lie_in_the_same_partitions(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows = [(f"k{n}", n * 1_800 if n % 7 else None, "xy"[n % 2]) for n in range(60)]
    frame = spark.createDataFrame(rows, "id string, at long, place string")
    batch = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )
    ours, sparks = created(tmp_path / "ours"), created(tmp_path / "sparks")

    ours.write(batch, options=DIRECT)
    assert isinstance(sparks.write(frame, options=DIRECT), Committed)
    assert isinstance(sparks.write(frame.limit(30), options=DIRECT), Committed)

    assert partitions(tmp_path / "sparks") == partitions(tmp_path / "ours")
    assert sparks.read().sort_by("id").to_pylist() == ours.read().sort_by("id").to_pylist()
    filtered = sparks.read(spark).filter("at = 3600")
    assert [row.id for row in filtered.collect()] == ["k2"]
