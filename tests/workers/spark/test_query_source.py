"""SQL over tables as the source of a Spark write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.bounded_process import LimitHit
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.query_inputs import QuerySource
from workers.spark.inputs import open_source
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


def opened(
    table: LakehouseTable,
    statement: str,
    columns: dict[str, str] = COLUMNS,
    environment: Mapping[str, str] = {},
) -> QuerySource:
    tables = {"trips": {"location": table.location, "columns": columns}}
    source: dict[str, Any] = {
        "kind": "sql",
        "statement": statement,
        "tables": json.dumps(tables),
    }
    root = str(Path(table.location).parent)
    opened_source = open_source(
        source,
        table=table.table,
        writer="w",
        environment={"SLUICE_TABLE_ROOTS": root, **environment},
        scratch=Path(root),
    )
    assert isinstance(opened_source, QuerySource)
    return opened_source


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


@pytest.mark.parametrize(
    ("statement", "setting", "limit"),
    [
        ("SELECT repeat(city, 700000000) AS id FROM trips", "SLUICE_SQL_WRITE_MEMORY_MB", "memory"),
        ("SELECT id FROM trips", "SLUICE_SQL_WRITE_ROWS", "rows"),
        pytest.param(
            "SELECT repeat(city, 100000) AS id FROM trips",
            "SLUICE_SQL_WRITE_MB",
            "bytes",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SELECT count(*) AS n FROM trips a, trips b, trips c, trips d, trips e, trips f, "
            "trips g, trips h, trips i, trips j, trips k, trips l, trips m WHERE a.ts + m.ts < 0",
            "SLUICE_SQL_WRITE_SECONDS",
            "time|cpu",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["memory", "rows", "bytes", "time"],
)
def test_statement_that_takes_too_much_is_ended_before_spark_sees_a_row(
    table: LakehouseTable, statement: str, setting: str, limit: str
) -> None:
    """Threat T31."""
    value = "500" if limit == "memory" else "1"
    source = opened(table, statement, environment={setting: value})

    with pytest.raises(LimitHit) as hit:
        source.compute()

    assert hit.value.values["limit"] in limit.split("|")


def test_pattern_that_takes_java_for_ever_is_answered(
    spark: SparkSession, table: LakehouseTable
) -> None:
    """Threat T21: the database compares in time that grows with the text alone."""
    text = "concat(repeat('a', 40), city)"
    source = opened(table, f"SELECT id FROM trips WHERE {text} RLIKE '^(.*a){{25}}$'")

    assert source.frame(spark, 0).count() == 0


def test_sum_of_integers_is_a_whole_number_that_a_table_holds(
    spark: SparkSession, table: LakehouseTable
) -> None:
    statement = "SELECT city, sum(ts) AS total, collect_list(ts) AS each FROM trips GROUP BY city"
    frame = opened(table, statement).frame(spark, 0)

    assert dict(frame.dtypes) == {"city": "string", "total": "bigint", "each": "array<bigint>"}
    assert sorted(row.total for row in frame.collect()) == [6, 9]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT id, ts AS id FROM trips", "two columns of the statement have one name"),
        pytest.param(
            "SELECT id FROM trips WHERE regexp_extract(city, '(', 1) = 'x'",
            "cannot be computed",
            marks=pytest.mark.slow,
        ),
        ("SELECT id, INTERVAL 1 DAY AS much FROM trips", "cannot be computed"),
        pytest.param(
            "SELECT 9223372036854775807 + ts AS id FROM trips",
            "cannot be computed",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_sentence(
    table: LakehouseTable, statement: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        opened(table, statement).compute()
