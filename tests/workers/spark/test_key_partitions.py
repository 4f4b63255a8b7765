"""Frames that bring keys of column groups under another partition, by the driver and in tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.keyed_streams import CLICK, SCHEMA, SHOWN, UPDATE
from tests.support.referee import assert_referee_agrees
from tests.support.spark_rival import OPTIONS, met_by_a_rival_once
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.spark import row_jobs

pytestmark = pytest.mark.spark

DAYS = ("mon", "tue", "wed")
MANY = range(60)


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small, and few file groups are many: no look-up is the driver's."""
    monkeypatch.setattr(row_jobs, "_DRIVER_LOOKUPS_MAX", 0)
    monkeypatch.setattr(row_jobs, "_DRIVER_GROUPS_MAX", 0)


def made(where: Path, update: str, table_type: str = "MERGE_ON_READ") -> LakehouseTable:
    table = create_table(
        where / "table",
        name="ads",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["day"],
        table_type=table_type,
        options={
            "hoodie.multistream.groups": json.dumps([SHOWN, CLICK]),
            "hoodie.bucket.index.num.buckets": "3",
            UPDATE: update,
        },
    )
    table.write(shown({f"k{n:02d}": DAYS[n % 3] for n in MANY}), options=OPTIONS)
    return table


def shown(days: Mapping[str, str], at: int = 5) -> pa.Table:
    return _batch(days, shown_at=at, price=at * 10)


def clicked(days: Mapping[str, str], at: int = 7) -> pa.Table:
    return _batch(days, clicked_at=at, x=at * 10)


def _batch(days: Mapping[str, str], **cells: int) -> pa.Table:
    same = {name: pa.array([cell] * len(days), pa.int64()) for name, cell in cells.items()}
    return pa.table({"id": list(days), "day": list(days.values()), **same})


def rows(table: LakehouseTable) -> dict[str, tuple[Any, ...]]:
    listed = table.read().to_pylist()
    assert len({row["id"] for row in listed}) == len(listed)
    return {row["id"]: (row["day"], row["price"], row["x"]) for row in listed}


@pytest.mark.usefixtures("in_tasks")
def test_a_frame_that_brings_a_key_under_another_partition_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path, "reject")
    frame = spark.createDataFrame(clicked({"k00": "mon", "k01": "wed", "new": "mon"}))

    with pytest.raises(InvalidInput, match="key=k01 stands_in=tue brought_for=wed"):
        table.write(frame, options=OPTIONS)

    assert set(rows(table)) == {f"k{n:02d}" for n in MANY}


@pytest.mark.slow
def test_a_frame_that_brings_a_key_for_two_partitions_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path, "reject")
    both = pa.concat_tables([clicked({"new": "mon"}), clicked({"new": "tue"})])
    frame = spark.createDataFrame(both).repartition(2)

    with pytest.raises(InvalidInput, match="for several partitions"):
        table.write(frame, options=OPTIONS)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("looks_up", ["in tasks", "in the driver"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_frame_moves_rows_whole_and_leaves_late_ones_where_they_stand(
    tmp_path: Path,
    spark: SparkSession,
    table_type: str,
    looks_up: str,
    request: pytest.FixtureRequest,
) -> None:
    if looks_up == "in tasks":
        request.getfixturevalue("in_tasks")
    table = made(tmp_path, "move", table_type)
    moving = {f"k{n:02d}": DAYS[(n + 1) % 3] for n in range(20)}
    late = {f"k{n:02d}": DAYS[(n + 1) % 3] for n in range(20, 30)}
    frame = spark.createDataFrame(clicked(moving | {"new": "mon"})).repartition(2)

    assert isinstance(table.write(frame, stream="click", options=OPTIONS), Committed)
    table.write(spark.createDataFrame(shown(late, at=4)), options=OPTIONS)

    stayed = {f"k{n:02d}": (DAYS[n % 3], 50, None) for n in MANY if n >= 20}
    moved = {key: (day, 50, 70) for key, day in moving.items()}
    assert rows(table) == stayed | moved | {"new": ("mon", None, 70)}
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert rows(table) == stayed | moved | {"new": ("mon", None, 70)}
    assert_referee_agrees(table.location)


@pytest.mark.usefixtures("in_tasks")
def test_a_frame_of_keys_to_delete_finds_rows_in_other_partitions(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path, "move")
    keys = spark.createDataFrame(shown({"k01": "wed", "k02": "wed", "k99": "mon"}))

    table.delete(keys, options=OPTIONS)

    assert set(rows(table)) == {f"k{n:02d}" for n in MANY} - {"k01", "k02"}


def test_a_frame_and_a_rival_that_bring_a_new_key_for_two_partitions_make_one_row(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path, "reject")
    rival = clicked({"new": "tue"})
    meets = partial(met_by_a_rival_once, table.location, rival, str(tmp_path / "met"))
    batch = shown({"new": "mon"})
    frame = spark.createDataFrame(batch).mapInArrow(
        meets, "id string, day string, shown_at bigint, price bigint"
    )

    outcome = table.write(frame, options={"hoodie.write.markers.type": "direct"})

    assert isinstance(outcome, Conflicted), outcome
    assert (outcome.conflict.rule, outcome.conflict.keys) == ("brought_apart", ("new",))
    assert rows(table)["new"] == ("tue", None, 70)
