"""Partitions inside each other whose rows are written by different tasks of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.scenario_table import schema_of
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import create_table

pytestmark = pytest.mark.spark

DIRECT = {"hoodie.write.markers.type": "direct"}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_the_write_is_refused_as_a_whole(
    tmp_path: Path, spark: SparkSession, operation: str
) -> None:
    schema = schema_of(id=pa.string(), dir=pa.string())
    table = create_table(
        tmp_path / "table", name="t", schema=schema, record_key=["id"], partition_by=["dir"]
    )
    nested = [("a", "2023/12"), ("b", "2024/01/15"), ("c", "2023/12/31")]
    frame = spark.createDataFrame(nested, "id string, dir string").repartition(3, "dir")

    with pytest.raises(InvalidInput, match="outer=2023/12 inner=2023/12/31"):
        table.write(frame, operation=operation, options=DIRECT)
    assert table.read().num_rows == 0

    assert isinstance(table.write(frame.filter("id <> 'a'"), options=DIRECT), Committed)
    with pytest.raises(InvalidInput, match="outer=2023/12 inner=2023/12/31"):
        table.write(frame.filter("id = 'a'"), operation=operation, options=DIRECT)
    assert table.read(spark).count() == 2
