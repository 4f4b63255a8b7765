"""Every kind of read through Spark gives what the same read gives without Spark."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from workers import register_merger
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.schema.alter import AddColumn, DropColumn, WidenColumn
from workers.spark import beside
from workers.spark.datasource import source_with

pytestmark = pytest.mark.spark

OPTIONS = {"hoodie.write.markers.type": "direct"}
FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("part", pa.string()),
    pa.field("n", pa.int32()),
    pa.field("tags", pa.list_(pa.string())),
]
SCHEMA = pa.schema(FIELDS)
OLD_DAYS = [(1, 1, 1), (1500, 2, 28), (1582, 10, 10), (1899, 12, 31), (2024, 2, 29)]


def adding_n(older: pa.Table, newer: pa.Table) -> pa.Table:
    both: list[Any] = [older.column("n"), newer.column("n")]
    return newer.set_column(newer.column_names.index("n"), "n", pc.add(*both))


def rows(ids: range, *, ts: int, n: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": f"k{one:03d}", "ts": ts, "part": f"p{one % 2}", "n": n, "tags": [f"{n}"]}
            for one in ids
        ],
        schema=SCHEMA,
    )


def partitioned(where: Path, table_type: str = "MERGE_ON_READ", **options: str) -> LakehouseTable:
    return create_table(
        where / "table",
        name="things",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=table_type,
        options=options,
    )


def made(where: Path, table_type: str, **options: str) -> tuple[LakehouseTable, list[str]]:
    """Inserts, updates, a batch that comes late, deletes and new keys; completion times."""
    table = partitioned(where, table_type, **{"hoodie.bucket.index.num.buckets": "2", **options})
    batches: list[Callable[[], Any]] = [
        lambda: table.write(rows(range(200), ts=5, n=1), options=OPTIONS),
        lambda: table.write(rows(range(50, 120), ts=7, n=2), options=OPTIONS),
        lambda: table.write(rows(range(100), ts=6, n=3), options=OPTIONS),
        lambda: table.delete(rows(range(90, 110), ts=0, n=0), options=OPTIONS),
        lambda: table.write(rows(range(105, 115), ts=1, n=4), options=OPTIONS),
        lambda: table.write(rows(range(190, 230), ts=9, n=5), options=OPTIONS),
    ]
    times = []
    for write in batches:
        outcome = write()
        assert isinstance(outcome, Committed)
        times.append(outcome.completed_at)
    return table, times


def counted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.fixture
def beside_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of so small a table outweigh its base files."""
    monkeypatch.setattr(beside, "DELTA_SHARE_MAX", 1000.0)


@pytest.mark.sampled(every=2)
@pytest.mark.usefixtures("beside_always")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_query_reads_the_same_with_and_without_spark(
    tmp_path: Path, spark: SparkSession, table_type: str
) -> None:
    table, times = made(tmp_path, table_type)
    queries: list[dict[str, Any]] = [
        {},
        {"as_of": times[1]},
        {"query": "read_optimized"},
        {"since": times[0]},
        {"since": times[1], "until": times[4]},
        {"query": "cdc", "since": times[0]},
        {"columns": ["n", "_hoodie_record_key"]},
        {"since": times[1], "columns": ["_hoodie_commit_time", "id"]},
        {"query": "cdc", "since": times[4], "columns": ["after", "op"]},
        {"since": times[-1]},
    ]

    for query in queries:
        ours, theirs = table.read(**query), table.read(spark, **query).toArrow()
        assert theirs.column_names == ours.column_names, query
        assert counted(theirs) == counted(ours), query


@pytest.mark.usefixtures("beside_always")
def test_slices_with_logs_are_merged_beside_the_scan_of_their_base_files(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, _ = made(tmp_path, "MERGE_ON_READ")

    frame = table.read(spark).where("n = 3").select("id")

    assert counted(frame.toArrow()) == counted(
        table.read().filter(pc.field("n") == 3).select(["id"])
    )
    scans = [line for line in plan_of(frame).splitlines() if "ReadSchema" in line]
    assert scans, plan_of(frame)
    assert all("tags" not in line for line in scans)


def test_slices_with_much_in_their_logs_are_merged_whole(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, _ = made(tmp_path, "MERGE_ON_READ")

    frame = table.read(spark)

    assert counted(frame.toArrow()) == counted(table.read())
    assert "ReadSchema" not in plan_of(frame)


@pytest.mark.usefixtures("beside_always")
def test_partial_table_is_merged_beside_the_scan_as_well(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = create_table(
        tmp_path / "table",
        name="partial",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    table.write(rows(range(300), ts=1, n=1), options=OPTIONS)
    narrow = rows(range(20, 40), ts=2, n=2).select(["id", "ts", "n"])
    table.write(narrow, options=OPTIONS)

    assert counted(table.read(spark).toArrow()) == counted(table.read())


@pytest.mark.usefixtures("beside_always")
def test_odd_partitions_and_avro_logs_are_read_as_without_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = partitioned(tmp_path)
    odd = {"p0": "São Paulo", "p1": "plain"}
    avro = {**OPTIONS, "hoodie.logfile.data.block.format": "avro"}
    table.write(in_partitions(odd, rows(range(200), ts=1, n=1)), options=OPTIONS)
    table.write(in_partitions(odd, rows(range(150, 220), ts=2, n=2)), options=avro)
    table.delete(in_partitions(odd, rows(range(10, 20), ts=0, n=0)), options=OPTIONS)

    frame = table.read(spark)

    assert counted(frame.toArrow()) == counted(table.read())
    assert "ReadSchema" in plan_of(frame)


@pytest.mark.usefixtures("beside_always")
def test_base_file_that_is_replaced_while_it_is_read_ends_the_query(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, _ = made(tmp_path, "MERGE_ON_READ")
    frame = table.read(spark)
    base_files = [one.base_file for one in table.file_groups()]

    for path in base_files:
        assert path is not None
        os.utime(tmp_path / "table" / path, (1, 1))

    with pytest.raises(Exception, match="unknown base file or row"):
        frame.toArrow()


@pytest.mark.usefixtures("beside_always")
def test_base_files_that_nothing_tells_apart_are_merged_whole(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = partitioned(tmp_path)
    plain = {**OPTIONS, "hoodie.parquet.compression.codec": "uncompressed"}
    table.write(rows(range(200), ts=1, n=1), options=plain)
    table.write(rows(range(50), ts=2, n=2), options=plain)
    paths = [tmp_path / "table" / (one.base_file or "") for one in table.file_groups()]
    assert len({path.stat().st_size for path in paths}) < len(paths)
    for path in paths:
        os.utime(path, (1, 1))

    assert counted(table.read(spark).toArrow()) == counted(table.read())


def in_partitions(names: dict[str, str], rows: pa.Table) -> pa.Table:
    renamed = [names[str(one)] for one in rows.column("part").to_pylist()]
    return rows.set_column(2, FIELDS[2], pa.array(renamed, pa.string()))


def test_column_that_there_is_not_is_refused_before_spark_runs(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, times = made(tmp_path, "COPY_ON_WRITE")

    with pytest.raises(InvalidInput, match="no such column"):
        table.read(spark, columns=["id", "nowhere"])
    with pytest.raises(InvalidInput, match="no such column"):
        table.read(spark, since=times[0], columns=["nowhere"])


def plan_of(frame: Any) -> str:
    return str(frame._explain_string(extended=True))


def test_spark_reads_old_dates_as_they_are_whatever_calendar_it_suspects(
    tmp_path: Path, spark: SparkSession
) -> None:
    """In a file that names no Spark version, Spark raises on these, or moves them by days."""
    moments = [dt.datetime(*day, 12, tzinfo=dt.UTC) for day in OLD_DAYS]
    rows = pa.table(
        {
            "id": [str(number) for number in range(len(OLD_DAYS))],
            "day": pa.array([one.date() for one in moments]),
            "moment": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )
    table = create_table(tmp_path / "t", name="old", schema=rows.schema, record_key=["id"])
    table.write(rows, options=OPTIONS)

    for suspicion in ("EXCEPTION", "LEGACY"):
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", suspicion)
        frame = table.read(spark)
        assert "ReadSchema" in plan_of(frame)
        rows_read = frame.selectExpr("id", "string(day)", "unix_micros(moment) as moment").toArrow()
        assert counted(rows_read) == counted(
            rows.select(["id"])
            .append_column("day", rows.column("day").cast(pa.string()))
            .append_column("moment", rows.column("moment").cast(pa.int64()))
        )
    spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInRead")


def test_dropped_column_does_not_come_back_as_its_namesake_nor_widened_ones_change(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, times = made(tmp_path, "COPY_ON_WRITE")
    for change in (DropColumn("tags"), WidenColumn("n", pa.int64())):
        table.alter(change, options=OPTIONS)
    table.write(rows(range(230), ts=20, n=6).drop_columns(["tags"]), options=OPTIONS)
    table.alter(AddColumn("tags", pa.list_(pa.string())), options=OPTIONS)
    table.write(rows(range(3), ts=30, n=7), options=OPTIONS)

    queries: list[dict[str, Any]] = [
        {},
        {"as_of": times[-1]},
        {"query": "cdc", "since": times[-2]},
    ]
    for query in queries:
        assert counted(table.read(spark, **query).toArrow()) == counted(table.read(**query)), query
    tagged = table.read(spark).where("tags is not null")
    assert sorted(row.id for row in tagged.collect()) == ["k000", "k001", "k002"]
    assert {row.n for row in table.read(spark).collect()} == {6, 7}


@pytest.mark.slow
def test_registered_merger_folds_windows_and_changes_on_executors_that_do_not_know_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    register_merger("test-adding-n", adding_n)
    merging = {"hoodie.record.merge.mode": "CUSTOM", "sluice.record.merger": "test-adding-n"}
    table, times = made(tmp_path, "MERGE_ON_READ", **merging)

    queries: list[dict[str, Any]] = [{}, {"since": times[0]}, {"query": "cdc", "since": times[0]}]
    for query in queries:
        assert counted(table.read(spark, **query).toArrow()) == counted(table.read(**query)), query
    spark.dataSource.register(source_with("test-adding-n"))
    more = spark.createDataFrame(rows(range(3), ts=9, n=10)).write.format("sluice")
    more.options(**OPTIONS).mode("append").save(table.location)
    source = spark.read.format("sluice").load(table.location)
    assert counted(source.toArrow()) == counted(table.read())
    assert source.where("n = 14").count() == 3  # Added up from 1, 3 and 10.
