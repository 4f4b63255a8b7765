"""Files of two writers with schemas of their own, read through Spark under the merge of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.merged_schemas import KINDS, merged_table
from workers.spark.datasource import SluiceDataSource

pytestmark = pytest.mark.spark


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.slow
def test_spark_reads_what_we_read(
    tmp_path: Path, spark: SparkSession, kind: tuple[str, str]
) -> None:
    spark.dataSource.register(SluiceDataSource)

    for pair in ("column and widening", "two nested fields"):
        table = merged_table(tmp_path / pair.replace(" ", "-"), kind, pair)
        ours = table.rows()
        frame = table.lakehouse.read(spark)
        source = spark.read.format("sluice").load(table.lakehouse.location)

        for read in (frame, source):
            their_rows = read.toArrow()
            assert their_rows.column_names == table.schema_columns()
            assert sorted(their_rows.to_pylist(), key=lambda row: row["id"]) == ours, pair
