"""A DataFrame written through Spark tasks is the same table as the same rows written by Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr, lit

from tests.support.referee import assert_referee_agrees
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput, StopPointRaised
from workers.lakehouse import LakehouseTable, create_table
from workers.timeline.instant import State

pytestmark = [pytest.mark.spark, pytest.mark.sampled(every=2)]

FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("seen_at", pa.timestamp("us", tz="UTC")),
    pa.field("part", pa.string()),
    pa.field("day", pa.date32()),
    pa.field("price", pa.decimal128(12, 2)),
    pa.field("weight", pa.float64()),
    pa.field("tags", pa.list_(pa.string())),
]
SCHEMA = pa.schema(FIELDS)
OPTIONS = {"hoodie.write.markers.type": "direct"}
Rows = list[dict[str, Any]]


def rows(ids: range, *, second: int) -> Rows:
    return [
        {
            "id": f"k{number:04d}",
            "seen_at": datetime(2026, 1, 2, 3, 4, second, number, tzinfo=UTC),
            "part": f"p{number % 3}",
            "day": date(2026, 1, 1 + number % 28),
            "price": Decimal(number) / 4,
            "weight": None if number % 5 == 0 else number / 7,
            "tags": [f"t{number}", f"s{second}"],
        }
        for number in ids
    ]


def arrow(batch: Rows) -> pa.Table:
    return pa.Table.from_pylist(batch, schema=SCHEMA)


def by_id(table: pa.Table) -> Rows:
    return sorted(table.to_pylist(), key=lambda row: str(row["id"]))


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="things",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["seen_at"],
        table_type=request.param,
        options={"hoodie.bucket.index.num.buckets": "2"},
    )


def test_upserts_through_spark_read_back_the_same_by_spark_arrow_and_hudi(
    table: LakehouseTable, spark: SparkSession
) -> None:
    first, second = rows(range(300), second=1), rows(range(200, 400), second=2)
    late = rows(range(100), second=0)
    for batch in (first, second, late):
        outcome = table.write(spark.createDataFrame(arrow(batch)), options=OPTIONS)
        assert isinstance(outcome, Committed)
        assert outcome.rows == len(batch)

    expected = by_id(arrow([*first[:200], *second]))
    assert by_id(table.read()) == expected
    assert by_id(table.read(spark).toArrow()) == expected
    assert_referee_agrees(table.location)


def test_rows_of_many_tasks_meet_in_their_file_groups(
    table: LakehouseTable, spark: SparkSession
) -> None:
    """More than tasks answer with: staged, but for those of the last task, and written by tasks."""
    many = spark.range(0, 24_000, 1, 3).unionByName(spark.range(24_000, 24_010, 1, 1))
    frame = many.selectExpr(
        "concat('k', id % 9000) as id",
        "timestamp_micros(id) as seen_at",
        "concat('p', id % 3) as part",
        "date'2026-01-01' as day",
        "cast(id as decimal(12, 2)) as price",
        "cast(id as double) as weight",
        "array(cast(id as string)) as tags",
    )

    outcome = table.write(frame, options=OPTIONS)

    assert isinstance(outcome, Committed)
    assert outcome.rows == 9_000
    read = table.read()
    assert sorted(read.column("weight").to_pylist()) == list(range(15_010, 24_010))
    assert table.table.storage.list_tree(".hoodie/.temp") == []
    assert_referee_agrees(table.location)


def test_write_of_equal_keys_in_one_frame_keeps_the_newest(
    table: LakehouseTable, spark: SparkSession
) -> None:
    newest = rows(range(50), second=9)
    both = [*newest, *rows(range(50), second=3)]

    outcome = table.write(spark.createDataFrame(arrow(both)), options=OPTIONS)

    assert isinstance(outcome, Committed)
    assert by_id(table.read()) == by_id(arrow(newest))


def test_snapshot_as_of_an_earlier_completion_shows_the_earlier_rows(
    table: LakehouseTable, spark: SparkSession
) -> None:
    before = rows(range(20), second=1)
    first = table.write(arrow(before), options=OPTIONS)
    table.write(spark.createDataFrame(arrow(rows(range(20), second=2))), options=OPTIONS)
    assert isinstance(first, Committed)

    seen = table.read(spark, as_of=first.completed_at).toArrow()

    assert by_id(seen) == by_id(arrow(before))


def test_frame_that_adds_a_column_evolves_the_schema(
    table: LakehouseTable, spark: SparkSession
) -> None:
    table.write(arrow(rows(range(10), second=1)), options=OPTIONS)
    wider = spark.createDataFrame(arrow(rows(range(5, 15), second=2)))

    table.write(wider.withColumn("colour", lit("red")), options=OPTIONS)

    seen = by_id(table.read(spark).toArrow())
    assert [row["colour"] for row in seen] == [None] * 5 + ["red"] * 10
    assert seen == by_id(table.read())


def test_bulk_insert_is_read_back(table: LakehouseTable, spark: SparkSession) -> None:
    batch = arrow(rows(range(40), second=1))

    outcome = table.write(spark.createDataFrame(batch), operation="bulk_insert", options=OPTIONS)

    assert isinstance(outcome, Committed)
    assert by_id(table.read(spark).toArrow()) == by_id(batch)


def test_base_files_older_than_a_wider_type_are_read_as_the_wider_type(
    tmp_path: Path, spark: SparkSession
) -> None:
    wide = create_table(tmp_path / "wide", name="wide", schema=None, record_key=["id"])
    narrow = pa.table({"id": ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    longer = pa.table({"id": ["c"], "n": pa.array([2**40], pa.int64())})
    wide.write(narrow, options=OPTIONS)
    wide.write(longer, options=OPTIONS)

    seen = wide.read(spark)

    assert by_id(seen.toArrow()) == [
        {"id": "a", "n": 1},
        {"id": "b", "n": 2},
        {"id": "c", "n": 2**40},
    ]
    assert seen.schema["n"].dataType.simpleString() == "bigint"


def test_row_without_a_key_fails_the_write_and_leaves_nothing(
    table: LakehouseTable, spark: SparkSession
) -> None:
    table.write(arrow(rows(range(10), second=1)), options=OPTIONS)
    before = files(table)
    bad = spark.createDataFrame(arrow(rows(range(10), second=2))).withColumn(
        "id", expr("if(id = 'k0003', null, id)")
    )

    with pytest.raises(InvalidInput, match="record key is null"):
        table.write(bad, options=OPTIONS)

    assert files(table) == before
    assert [one.action.value for one in table.timeline()][-1] == "rollback"
    assert all(one.state is State.COMPLETED for one in table.timeline())


def test_empty_table_and_empty_frame_are_fine(table: LakehouseTable, spark: SparkSession) -> None:
    assert table.read(spark).toArrow().num_rows == 0

    empty = spark.createDataFrame(arrow(rows(range(1), second=1))).where("false")
    outcome = table.write(empty, options=OPTIONS)

    assert isinstance(outcome, Committed)
    assert table.read(spark).count() == 0


def test_unknown_operation_and_incompatible_column_are_refused_before_spark_runs(
    table: LakehouseTable, spark: SparkSession
) -> None:
    frame = spark.createDataFrame(arrow(rows(range(3), second=1)))

    with pytest.raises(InvalidInput, match="unknown operation"):
        table.write(frame, operation="insert_or_so", options=OPTIONS)
    with pytest.raises(InvalidInput, match="incompatible type"):
        table.write(frame.withColumn("weight", lit("heavy")), options=OPTIONS)

    assert files(table) == []


def test_in_process_lock_is_refused_for_a_data_frame(
    table: LakehouseTable, spark: SparkSession
) -> None:
    frame = spark.createDataFrame(arrow(rows(range(3), second=1)))

    with pytest.raises(InvalidInput, match=r"write=hoodie\.write\.lock\.provider=storage"):
        table.write(frame, options={**OPTIONS, "hoodie.write.lock.provider": "in_process"})

    assert files(table) == []


def test_stop_point_between_files_and_commit_is_ours_to_raise(
    table: LakehouseTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_ALLOW_STOP_POINTS", "1")
    monkeypatch.setenv(
        "SLUICE_STOP_POINTS", '[{"point": "after_data", "writer": "spark", "action": "raise"}]'
    )
    frame = spark.createDataFrame(arrow(rows(range(30), second=1)))

    with pytest.raises(StopPointRaised):
        table.write(frame, options={**OPTIONS, "sluice.writer.name": "spark"})

    monkeypatch.setenv("SLUICE_ALLOW_STOP_POINTS", "0")
    assert table.read().num_rows == 0


def files(table: LakehouseTable) -> list[str]:
    """Data files; what is under .hoodie has its own tests."""
    listed_files = table.table.storage.list_tree("")
    return [
        one.path
        for one in listed_files
        if not one.path.startswith(".hoodie") and ".hoodie_partition_metadata" not in one.path
    ]


def test_a_time_with_a_zone_is_the_same_key_for_a_frame_of_another_zone(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = create_table(tmp_path / "t", name="t", schema=SCHEMA, record_key=["seen_at"])
    batch = rows(range(3), second=1)
    table.write(arrow(batch), options=OPTIONS)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        again = spark.createDataFrame(arrow([row | {"part": "again"} for row in batch[1:]]))
        table.write(again, options=OPTIONS)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    keys = table.read(columns=["_hoodie_record_key", "part"]).sort_by("_hoodie_record_key")
    first = 1_767_323_041_000_000
    assert keys.to_pylist() == [
        {"_hoodie_record_key": str(first), "part": "p0"},
        {"_hoodie_record_key": str(first + 1), "part": "again"},
        {"_hoodie_record_key": str(first + 2), "part": "again"},
    ]
    assert_referee_agrees(table.location)
