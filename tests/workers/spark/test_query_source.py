"""SQL over tables as the source of a Spark write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.inputs import Source, open_source
from workers.spark.write import write_frame

pytestmark = pytest.mark.spark
DIRECT = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
SCHEMA = pa.schema(_TYPES)
COLUMNS = {"id": "string", "ts": "bigint", "city": "string"}


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    trips = create_table(tmp_path / "trips", name="trips", schema=SCHEMA, record_key=["id"])
    rows = [{"id": str(at), "ts": at, "city": "Oslo" if at % 2 else "Bergen"} for at in range(6)]
    trips.write(pa.Table.from_pylist(rows, schema=SCHEMA), options=DIRECT)
    return trips


def opened(table: LakehouseTable, statement: str, columns: dict[str, str] = COLUMNS) -> Source:
    tables = {"trips": {"location": table.location, "columns": columns}}
    source: dict[str, Any] = {
        "kind": "sql",
        "statement": statement,
        "tables": json.dumps(tables),
    }
    root = str(Path(table.location).parent)
    environment = {"SLUICE_TABLE_ROOTS": root}
    return open_source(
        source, table=table.table, writer="w", environment=environment, scratch=Path(root)
    )


def test_rows_of_a_statement_are_written(
    spark: SparkSession, table: LakehouseTable, tmp_path: Path
) -> None:
    types: dict[str, pa.DataType] = {"city": pa.string(), "n": pa.int64()}
    schema = pa.schema(types)
    sums = create_table(tmp_path / "sums", name="sums", schema=schema, record_key=["city"])
    source = opened(table, "SELECT city, count(*) AS n FROM trips WHERE ts > 0 GROUP BY city")

    outcome = write_frame(sums.table, source.frame(spark, 0), "upsert", None, DIRECT)

    assert isinstance(outcome, Committed)
    counted = {row["city"]: row["n"] for row in sums.read().to_pylist()}
    assert counted == {"Oslo": 3, "Bergen": 2}


def test_columns_that_were_not_checked_are_not_read(
    spark: SparkSession, table: LakehouseTable
) -> None:
    """Threat T12: what the control plane did not look at does not come with a star."""
    source = opened(table, "SELECT * FROM trips", {"id": "string", "ts": "bigint"})

    assert source.frame(spark, 0).columns == ["id", "ts"]
    with pytest.raises(InvalidInput):
        opened(table, "SELECT city FROM trips", {"id": "string", "ts": "bigint"})
    with pytest.raises(InvalidInput, match="no such table"):
        opened(table, "SELECT id FROM others")
    with pytest.raises(InvalidInput):
        opened(table, "SELECT * FROM parquet.`/etc`")
