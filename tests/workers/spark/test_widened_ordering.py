"""An ordering column that becomes wider by a Spark write, read through Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.scenario_table import ScenarioTable
from tests.support.widened_ordering import (
    DELETED,
    NARROW,
    NARROW_ROWS,
    NEWER,
    STANDING,
    WIDE,
    WIDE_ROWS,
    fill,
    upsert,
)
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import open_table

pytestmark = pytest.mark.spark

LEFT = [STANDING[0], {"id": 2, "ts": NEWER - 1, "city": "late"}, *STANDING[1:]]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_spark_writes_and_reads_rows_and_deletes_of_both_types(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table = ScenarioTable(tmp_path / "table", table_type=table_type, schema=NARROW, ordering=["ts"])
    fill(table)
    upsert(table, [one for one in NARROW_ROWS if not one[DELETED]], NARROW).wins()

    wide = spark.createDataFrame(table.batch(WIDE_ROWS, WIDE).to_pandas())
    outcome = open_table(table.location).write(wide)

    assert isinstance(outcome, Committed), outcome
    spark_rows = open_table(table.location).read(spark).orderBy("id").collect()
    assert [row.asDict() for row in spark_rows] == table.rows() == LEFT


def test_spark_write_is_refused_while_logs_hold_deletes_of_the_older_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = ScenarioTable(
        tmp_path / "table", table_type="MERGE_ON_READ", schema=NARROW, ordering=["ts"]
    )
    fill(table)
    upsert(table, NARROW_ROWS, NARROW).wins()
    wide = spark.createDataFrame(table.batch(WIDE_ROWS, WIDE).to_pandas())

    with pytest.raises(InvalidInput, match="compact the table"):
        open_table(table.location).write(wide)
