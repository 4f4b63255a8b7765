"""The data source `sluice`: what `spark.read` and `df.write` do through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from workers.lakehouse import LakehouseTable, create_table
from workers.spark.datasource import SluiceDataSource
from workers.table_layout import STAGED_FRAMES

pytestmark = pytest.mark.spark

FIELDS: list[tuple[str, pa.DataType]] = [("id", pa.string()), ("ts", pa.int64()), ("n", pa.int32())]
SCHEMA = pa.schema(FIELDS)
DIRECT = {"hoodie.write.markers.type": "direct"}


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="things",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(SluiceDataSource)
    return spark


def frame(spark: SparkSession, ids: range, *, ts: int) -> DataFrame:
    rows = [{"id": f"k{one:03d}", "ts": ts, "n": one} for one in ids]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA)).repartition(3)


def ids(rows: pa.Table) -> list[str]:
    return sorted(str(one) for one in rows.column("id").to_pylist())


def test_append_upserts_and_overwrite_replaces_the_table(
    session: SparkSession, table: LakehouseTable
) -> None:
    def write(rows: DataFrame, mode: str) -> None:
        rows.write.format("sluice").options(**DIRECT).mode(mode).save(table.location)

    write(frame(session, range(60), ts=1), "append")
    write(frame(session, range(40, 80), ts=2), "append")
    read = session.read.format("sluice")

    assert sorted(map(repr, read.load(table.location).toArrow().to_pylist())) == sorted(
        map(repr, table.read().to_pylist())
    )
    assert table.read().num_rows == 80
    [_, first, second] = table.table.timeline().list_completed_writes()
    window = read.options(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": first.completed_at or "",
            "hoodie.read.columns": "id",
        }
    )
    assert window.load(table.location).columns == ["id"]
    assert ids(window.load(table.location).toArrow()) == [f"k{one:03d}" for one in range(40, 80)]
    before = session.read.format("sluice").option("as.of.instant", first.completed_at or "")
    assert before.load(table.location).count() == 60
    filtered = session.read.format("sluice").option("sluice.read.filter", "id = 'k050' AND n > 1")
    assert ids(filtered.load(table.location).toArrow()) == ["k050"]
    nothing = session.read.format("sluice").option("sluice.read.filter", "id = 'x' AND id = 'y'")
    assert nothing.load(table.location).count() == 0
    assert second.completed_at

    write(frame(session, range(5), ts=0), "overwrite")

    assert ids(table.read()) == [f"k{one:03d}" for one in range(5)]
    assert table.table.storage.list_tree(STAGED_FRAMES.path) == []


def test_failed_write_leaves_nothing_staged_and_nothing_written(
    session: SparkSession, table: LakehouseTable
) -> None:
    bad = frame(session, range(30), ts=1).selectExpr("if(n = 7, null, id) as id", "ts", "n")

    with pytest.raises(PySparkException, match="record key is null"):
        bad.write.format("sluice").options(**DIRECT).mode("append").save(table.location)

    assert table.read().num_rows == 0
    assert table.table.storage.list_tree(STAGED_FRAMES.path) == []


def test_option_that_nobody_knows_is_refused_by_name(
    session: SparkSession, table: LakehouseTable
) -> None:
    misspelt = session.read.format("sluice").option("as.of.instnt", "1").load(table.location)
    with pytest.raises(PySparkException, match="unknown read option"):
        misspelt.count()
    writer = frame(session, range(3), ts=1).write.format("sluice").option("hoodie.wrte", "1")
    with pytest.raises(PySparkException, match="unknown write option"):
        writer.mode("append").save(table.location)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
def test_table_is_read_by_every_spelling_of_its_path(
    scheme: str, session: SparkSession, table: LakehouseTable
) -> None:
    table.write(pa.Table.from_pylist([{"id": "a", "ts": 1}], schema=SCHEMA), options=DIRECT)

    assert session.read.format("sluice").load(scheme + table.location).count() == 1


def test_table_of_a_catalog_is_a_temporary_view(
    session: SparkSession, table: LakehouseTable
) -> None:
    table.write(pa.Table.from_pylist([{"id": "a", "ts": 1}], schema=SCHEMA), options=DIRECT)

    options = f"path '{table.location}', 'hoodie.write.markers.type' 'direct'"
    session.sql(f"CREATE TEMPORARY VIEW v USING sluice OPTIONS ({options})")

    assert [row["id"] for row in session.sql("SELECT id FROM v").collect()] == ["a"]
    session.sql("INSERT INTO v VALUES ('b', 2, 2)")
    assert ids(table.read()) == ["a", "b"]
    assert session.table("v").count() == 1  # Spark keeps what it planned first.
    session.catalog.dropTempView("v")


def test_table_of_a_catalog_takes_its_path_from_each_statement(
    session: SparkSession, table: LakehouseTable
) -> None:
    at = f"'path' = '{table.location}'"
    session.sql("CREATE TABLE shell (id STRING, ts BIGINT, n INT) USING sluice")
    try:
        direct = "'hoodie.write.markers.type' = 'direct'"
        session.sql(f"INSERT INTO shell WITH ({at}, {direct}) SELECT 'a', 5, 1")
        rows = session.sql(f"SELECT * FROM shell WITH ({at}, 'where' = 'n = 1')").collect()
    finally:
        session.sql("DROP TABLE shell")

    assert [row.asDict() for row in rows] == [{"id": "a", "ts": 5, "n": 1}]


def _selected(session: SparkSession, location: str) -> object:
    columns = "id STRING, ts BIGINT, n INT"
    session.sql(f"CREATE TABLE catalogued ({columns}) USING sluice LOCATION '{location}'")
    try:
        return session.sql("SELECT * FROM catalogued").collect()
    finally:
        session.sql("DROP TABLE catalogued")


def _written(session: SparkSession, location: str) -> object:
    rows = session.readStream.format("rate").load().writeStream.format("sluice")
    query = rows.option("checkpointLocation", f"{location}-checkpoint").start(location)
    return query.awaitTermination(60)


REFUSED: dict[str, tuple[Callable[[SparkSession, str], object], str]] = {
    "no path": (lambda spark, _: spark.read.format("sluice").load().count(), "TEMPORARY VIEW"),
    "unknown option": (
        lambda spark, at: spark.read.format("sluice").option("as.of.instnt", "1").load(at).count(),
        "unknown read option: key=as.of.instnt",
    ),
    "no table": (
        lambda spark, at: spark.read.format("sluice").load(f"{at}-no").count(),
        "no table here",
    ),
    "table of a catalog": (
        lambda spark, at: spark.sql(f"CREATE TABLE c USING sluice LOCATION '{at}'"),
        "TEMPORARY VIEW",
    ),
    "table of a catalog with columns": (_selected, "TEMPORARY VIEW"),
    "another host": (
        lambda spark, at: spark.read.format("sluice").load(f"file://elsewhere{at}").count(),
        "file:///path",
    ),
    "column that there is not": (
        lambda spark, at: (
            spark.createDataFrame([("a", 1)], "id string, nope int")
            .write.format("sluice")
            .options(**DIRECT)
            .mode("append")
            .save(at)
        ),
        "ordering",
    ),
    "stream without a name": (_written, "needs a name of its own"),
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_in_one_sentence(
    case: str, session: SparkSession, table: LakehouseTable
) -> None:
    act, reason = REFUSED[case]

    with pytest.raises(PySparkException) as caught:
        act(session, table.location)

    text = str(caught.value)
    assert reason in text
    assert "Traceback" not in text
    assert 'File "' not in text
