"""Windows and changes through Spark, by both of its ways, across clustering, commits that publish
rows again, and moves between partitions: those that Arrow gives.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.fixtures import pytest_runtest_makereport, tables, tables_root
from tests.support.overtaking import SCHEMA, row
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.table_services import run
from workers.lakehouse import open_table
from workers.spark.datasource import SluiceDataSource

__all__ = ["pytest_runtest_makereport", "tables", "tables_root"]

pytestmark = pytest.mark.spark

DIRECT = {"hoodie.write.markers.type": "direct", "hoodie.parquet.small.file.limit": "0"}
PARTIAL = {
    "hoodie.index.type": "SIMPLE",
    "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
BEGIN = "hoodie.datasource.read.begin.instanttime"
EVERY_LOG = {"hoodie.compact.inline.max.delta.commits": "1"}


def reading(key: str, place: str, value: int) -> Row:
    return {"id": key, "place": place, "ts": value, "value": value, "note": "n"}


def write(table: ScenarioTable, *rows: Row) -> str:
    outcome: Any = table.lakehouse.write(table.batch(rows), options=DIRECT)
    return str(outcome.completed_at)


def every_way(
    spark: SparkSession, table: ScenarioTable, since: str, query: str = "incremental"
) -> list[Row]:
    """What Arrow gives, which `table.read(spark)` and the data source give, too."""
    opened = open_table(table.location)
    given: list[Row] = opened.read(query=query, since=since).to_pylist()
    spark.dataSource.register(SluiceDataSource)
    source = spark.read.format("sluice").option("query", query).option(BEGIN, since)
    for frame in (opened.read(spark, query=query, since=since), source.load(str(table.location))):
        rows: pa.Table = frame.toArrow()
        assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, given))
    return given


@pytest.mark.slow
def test_clustering_brings_no_row_into_a_window(
    tables: ScenarioTables, spark: SparkSession
) -> None:
    table = tables(schema=READINGS, partition_by=["place"], options=PARTIAL)
    write(table, *(reading(key, "p", at) for at, key in enumerate("abc")))
    since = write(table, reading("a", "p", 9))
    table.lakehouse.cluster(["value"], options=DIRECT)
    write(table, reading("n", "p", 5))

    assert [one["id"] for one in every_way(spark, table, since)] == ["n"]
    assert [one["op"] for one in every_way(spark, table, since, "cdc")] == ["i"]


@pytest.mark.slow
def test_row_that_is_published_again_is_delivered_once(
    tables: ScenarioTables, spark: SparkSession
) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=SCHEMA,
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    write(table, row(1, 1, "first"))
    late = table.writer("late", mode="non-blocking").upsert(row(1, 5, "late"))
    rival = table.writer("rival", mode="non-blocking").upsert_and_commit(row(1, 5, "rival"))
    done = late.wins()
    run(table.table, "compaction", **EVERY_LOG)

    assert done.republished_keys == 1
    assert every_way(spark, table, done.completed_at) == []
    assert every_way(spark, table, done.completed_at, "cdc") == []
    assert [one["city"] for one in every_way(spark, table, rival.completed_at)] == ["late"]
    assert [one["op"] for one in every_way(spark, table, rival.completed_at, "cdc")] == ["u"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.sampled(every=2)
def test_row_that_moves_is_one_update(
    tables: ScenarioTables, spark: SparkSession, table_type: str
) -> None:
    table = tables(
        table_type=table_type,
        schema=READINGS,
        partition_by=["place"],
        options={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    since = write(table, reading("k", "m", 1), reading("l", "m", 1), reading("m", "t", 1))
    write(table, reading("k", "t", 2), reading("m", "m", 2), reading("l", "m", 2))
    write(table, reading("k", "m", 3))

    events = every_way(spark, table, since, "cdc")

    moves = [(one["before"]["place"], one["after"]["place"]) for one in events]
    assert [one["op"] for one in events] == ["u"] * 4
    assert sorted(moves[:3]) == [("m", "m"), ("m", "t"), ("t", "m")]
    assert moves[3] == ("t", "m")
    assert len(every_way(spark, table, since)) == 3
