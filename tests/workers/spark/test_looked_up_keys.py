"""Tables whose keys are looked up, written through Spark: the same rows as Arrow writes, whether
the driver or tasks look the keys up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.invariants import assert_keys_are_unique, assert_table_is_sound
from tests.support.referee import assert_referee_agrees
from tests.support.spark_tasks import run_tasks
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.options.index_kind import IndexKind
from workers.options.write_options import write_options
from workers.read.snapshot import read_snapshot
from workers.spark.datasource import SluiceDataSource
from workers.spark.row_jobs import write_owned
from workers.table.schema_history import read_instant
from workers.write.client import WriteClient

pytestmark = pytest.mark.spark

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "place": pa.string(),
    "ts": pa.int64(),
    "number": pa.int64(),
    "filling": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
OPTIONS = {
    "hoodie.write.markers.type": "direct",
    "hoodie.parquet.max.file.size": "100000",
    "hoodie.parquet.small.file.limit": "90000",
    "hoodie.copyonwrite.record.size.estimate": "100",
}
"""A file of at most a thousand rows."""
FILLING = 300
"""Bytes, so that tasks have more rows than they answer with."""


def made(place: Path, kind: str, index: str) -> LakehouseTable:
    return create_table(
        place,
        name="looked_up",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place"],
        ordering=["ts"],
        table_type=kind,
        options={"hoodie.index.type": index},
    )


def rows(numbers: Iterable[int], ts: int, *, turn: int = 0, filling: int = FILLING) -> pa.Table:
    """`turn` sends rows to another partition."""
    listed = [
        {
            "id": f"k{n:05}",
            "place": ("oslo", "rome", "lima")[(n + turn) % 3],
            "ts": ts,
            "number": n * 10 + ts,
            "filling": f"{n}:{ts}:".ljust(filling, "x"),
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def snapshot(table: LakehouseTable) -> list[dict[str, Any]]:
    rows = read_snapshot(table.table, with_meta_columns=True)
    assert_keys_are_unique(rows)
    return sorted(rows.select(SCHEMA.names).to_pylist(), key=lambda row: (row["id"], row["place"]))


@pytest.mark.slow
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("kind", "index"),
    [
        ("COPY_ON_WRITE", "SIMPLE"),
        ("MERGE_ON_READ", "GLOBAL_SIMPLE"),
        pytest.param("MERGE_ON_READ", "BLOOM", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "GLOBAL_BLOOM", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "SIMPLE", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "GLOBAL_SIMPLE", marks=pytest.mark.slow),
    ],
)
def test_large_and_small_frames_write_what_arrow_writes(
    tmp_path: Path, spark: SparkSession, kind: str, index: str
) -> None:
    ours, theirs = made(tmp_path / "spark", kind, index), made(tmp_path / "arrow", kind, index)
    moved = 1 if IndexKind(index).is_global else 0
    writes = [
        ("upsert", rows(range(3000), 1)),
        ("upsert", rows(range(0, 4000, 2), 3, turn=moved)),
        ("upsert", rows([5, 7], 9, filling=5)),
        ("delete", rows(range(0, 4000, 5), 4, turn=moved)),
        ("insert", rows(range(3990, 4010), 5)),
    ]

    for operation, batch in writes:
        frame = spark.createDataFrame(batch).repartition(3)
        outcome = ours.write(frame, operation=operation, options=OPTIONS)
        other = theirs.write(batch, operation=operation, options=OPTIONS)
        assert isinstance(outcome, Committed)
        assert isinstance(other, Committed)
        assert outcome.rows == other.rows
        assert snapshot(ours) == snapshot(theirs)

    assert_referee_agrees(ours.location)
    assert_table_is_sound(ours.location)
    leftovers = [one.path for one in ours.table.storage.list_tree(".hoodie/.temp")]
    assert leftovers == []


def test_inserts_that_tasks_stage_fill_files_as_arrow_fills_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    ours, theirs = (made(tmp_path / one, "COPY_ON_WRITE", "SIMPLE") for one in ("a", "b"))
    batches = rows(range(3500), 1), rows(range(3400, 5000), 2)

    for batch in batches:
        ours.write(spark.createDataFrame(batch).repartition(4), options=OPTIONS)
        theirs.write(batch, options=OPTIONS)

    assert inserts(ours) == inserts(theirs)


def inserts(table: LakehouseTable) -> list[list[tuple[str, int, bool]]]:
    """Per commit: how many inserts each partition's files took, and whether they stood before."""
    written = list(table.table.timeline().list_completed_writes())[1:]
    return [
        sorted(
            (stat.partition_path, stat.num_inserts, stat.prev_commit != "null")
            for stat in read_instant(table.table, one).stats
            if stat.num_inserts
        )
        for one in written
    ]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_deleted_keys_that_tasks_bring_back_count_as_inserts(
    tmp_path: Path, spark: SparkSession, index: str
) -> None:
    """By these counts two writers who bring one key back find each other (XL1)."""
    ours, theirs = (made(tmp_path / one, "MERGE_ON_READ", index) for one in ("a", "b"))
    for table in (ours, theirs):
        table.write(rows(range(900), 1), options=OPTIONS)
        table.delete(rows(range(0, 900, 3), 2), options=OPTIONS)

    ours.write(spark.createDataFrame(rows(range(900), 3)).repartition(4), options=OPTIONS)
    theirs.write(rows(range(900), 3), options=OPTIONS)

    assert inserts(ours) == inserts(theirs)
    assert inserts(ours)[-1] == [("oslo", 300, True)]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_equal_keys_of_several_tasks_are_one_row(
    tmp_path: Path, spark: SparkSession, index: str
) -> None:
    table = made(tmp_path / "t", "COPY_ON_WRITE", index)
    batches = [rows(range(1500), ts, turn=ts) for ts in (1, 3, 2)]
    frame = spark.createDataFrame(pa.concat_tables(batches)).repartition(5)

    table.write(frame, options=OPTIONS)

    newest = snapshot(table)
    wanted = batches[1] if index == "GLOBAL_SIMPLE" else pa.concat_tables(batches)
    by_key = sorted(wanted.to_pylist(), key=lambda row: (row["id"], row["place"]))
    assert newest == by_key


@pytest.mark.slow
def test_a_policy_that_refuses_known_keys_leaves_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path / "t", "COPY_ON_WRITE", "SIMPLE")
    table.write(rows(range(2000), 1), options=OPTIONS)
    before = snapshot(table)
    policy = {"hoodie.datasource.insert.dup.policy": "fail"}

    with pytest.raises(InvalidInput, match="already"):
        table.write(
            spark.createDataFrame(rows(range(1999, 4000), 2)).repartition(3),
            operation="insert",
            options=OPTIONS | policy,
        )

    assert snapshot(table) == before
    assert_table_is_sound(table.location)


def test_many_file_groups_are_asked_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    table = made(tmp_path / "t", "MERGE_ON_READ", "GLOBAL_SIMPLE")
    tiny = OPTIONS | {"hoodie.parquet.max.file.size": "5000"}
    table.write(rows(range(2500), 1, filling=5), options=tiny)
    assert len(table.file_groups()) > 32

    table.write(spark.createDataFrame(rows([3, 5000], 2, turn=1, filling=5)), options=tiny)

    by_id = {row["id"]: (row["place"], row["ts"]) for row in snapshot(table)}
    assert len(by_id) == 2501
    assert (by_id["k00003"], by_id["k05000"]) == (("rome", 2), ("oslo", 2))


def test_tasks_write_the_file_groups_that_the_driver_planned(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path / "t", "COPY_ON_WRITE", "SIMPLE")
    table.write(rows(range(10), 1), options=OPTIONS)
    transaction = WriteClient(table.table, write_options(OPTIONS)).begin(SCHEMA)
    frame = spark.createDataFrame(rows(range(5, 30), 2)).repartition(2)

    statuses = run_tasks(
        frame, transaction.context, f"test-{transaction.instant}", write_owned, task_bytes=1
    )

    assert isinstance(transaction.commit(statuses), Committed)
    assert len({(one.stat.partition_path, one.stat.file_id) for one in statuses}) == len(statuses)
    assert len(snapshot(table)) == 30


@pytest.mark.slow
def test_the_data_source_looks_keys_up(tmp_path: Path, spark: SparkSession) -> None:
    table = made(tmp_path / "t", "MERGE_ON_READ", "GLOBAL_BLOOM")
    spark.dataSource.register(SluiceDataSource)

    for batch in (rows(range(50), 1), rows(range(25, 75), 2, turn=1)):
        frame = spark.createDataFrame(batch).repartition(2).write.format("sluice").mode("append")
        frame.option("path", str(table.location)).save()

    snapshot_rows = snapshot(table)
    assert len(snapshot_rows) == 75
    assert [row["ts"] for row in snapshot_rows] == [1] * 25 + [2] * 50
