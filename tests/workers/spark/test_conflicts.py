"""A frame whose write meets a faster rival."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.invariants import leftovers, orphan_files
from tests.support.referee import assert_referee_agrees
from tests.support.spark_rival import OPTIONS, met_by_a_rival_each_time, met_by_a_rival_once
from workers.concurrency.outcome import Committed, Conflicted
from workers.lakehouse import LakehouseTable, create_table
from workers.table.schema_history import read_instant
from workers.timeline.instant import State
from workers.timeline.metadata import ATTEMPTS_KEY

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [f"k{n}" for n in range(40)], "ts": [1] * 40})
RIVAL = pa.table({"id": ["k1", "rival"], "ts": [2, 2]})


def things(location: Path, index: dict[str, str]) -> LakehouseTable:
    """Empty."""
    return create_table(
        location,
        name="things",
        schema=ROWS.schema,
        record_key=["id"],
        ordering=["ts"],
        options=index,
    )


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    created = things(tmp_path / "table", {"hoodie.bucket.index.num.buckets": "1"})
    created.write(ROWS, options=OPTIONS)
    return created


def test_frame_that_lost_is_written_again_on_the_table_as_it_is_then(
    table: LakehouseTable, tmp_path: Path, spark: SparkSession
) -> None:
    meets = partial(met_by_a_rival_once, table.location, RIVAL, str(tmp_path / "met"))
    frame = spark.createDataFrame(ROWS).mapInArrow(meets, "id string, ts bigint")

    outcome = table.write(
        frame, options={**OPTIONS, "hoodie.write.num.retries.on.conflict.failures": "1"}
    )

    assert isinstance(outcome, Committed), outcome
    assert outcome.attempts == 2
    assert extra_of(table, outcome.instant)[ATTEMPTS_KEY] == "2"
    ts_by_id = dict(zip(*table.read().to_pydict().values(), strict=True))
    assert ts_by_id == {f"k{n}": 1 for n in range(40)} | {"k1": 2, "rival": 2}
    actions = [one.action.value for one in table.timeline()]
    assert actions == ["commit", "commit", "commit", "rollback", "commit"]
    assert {one.state for one in table.timeline()} == {State.COMPLETED}
    assert orphan_files(table.table) == leftovers(table.table) == []
    assert_referee_agrees(table.location)


def test_frame_that_inserts_a_key_that_a_rival_inserted_first_updates_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Under an index that looks keys up they meet in no file group."""
    table = things(tmp_path / "looked-up", {"hoodie.index.type": "BLOOM"})
    meets = partial(met_by_a_rival_once, table.location, RIVAL, str(tmp_path / "met"))
    frame = spark.createDataFrame(ROWS).mapInArrow(meets, "id string, ts bigint")
    lost: list[str | None] = []

    for retries in ("0", "1"):
        once = {"hoodie.write.num.retries.on.conflict.failures": retries}
        outcome = table.write(frame, options={**OPTIONS, **once})
        lost.append(outcome.conflict.rule if isinstance(outcome, Conflicted) else None)

    assert lost == ["inserted_twice", None]
    ts_by_id = dict(zip(*table.read().to_pydict().values(), strict=True))
    assert ts_by_id == {f"k{n}": 1 for n in range(40)} | {"k1": 2, "rival": 2}
    assert orphan_files(table.table) == leftovers(table.table) == []
    assert_referee_agrees(table.location)


@pytest.mark.parametrize("index", ["BUCKET", "BLOOM"])
def test_frame_of_keys_to_delete_looks_again_for_one_that_a_rival_inserted_first(
    tmp_path: Path, spark: SparkSession, index: str
) -> None:
    table = things(tmp_path / "things", {"hoodie.index.type": index})
    meets = partial(met_by_a_rival_once, table.location, RIVAL, str(tmp_path / "met"))
    frame = spark.createDataFrame(ROWS).mapInArrow(meets, "id string, ts bigint")

    conflicts, left = [], []
    for retries in ("0", "1"):
        once = {"hoodie.write.num.retries.on.conflict.failures": retries}
        outcome = table.delete(frame, options={**OPTIONS, **once})
        conflicts += [outcome.conflict] if isinstance(outcome, Conflicted) else []
        left.append(sorted(table.read().column("id").to_pylist()))

    assert [(one.rule, one.keys) for one in conflicts] == [("deleted_unseen", ("k1",))]
    assert left == [["k1", "rival"], ["rival"]]


def test_frame_that_loses_each_time_names_all_its_rivals(
    table: LakehouseTable, tmp_path: Path, spark: SparkSession
) -> None:
    meets = partial(met_by_a_rival_each_time, table.location, RIVAL, str(tmp_path))
    frame = spark.createDataFrame(ROWS).coalesce(1).mapInArrow(meets, "id string, ts bigint")

    outcome = table.write(
        frame, options={**OPTIONS, "hoodie.write.num.retries.on.conflict.failures": "1"}
    )

    assert isinstance(outcome, Conflicted), outcome
    assert outcome.attempts == 2
    assert [one.rival_writer for one in outcome.earlier] == ["rival0"]
    assert outcome.conflict.rival_writer == "rival1"
    assert "2 attempts lost" in outcome.conflict.message
    assert "(rival0)" in outcome.conflict.message
    assert outcome.conflict.lost is not None
    assert (outcome.conflict.lost.attempt, outcome.conflict.lost.attempts_max) == (2, 2)
    assert orphan_files(table.table) == leftovers(table.table) == []


def extra_of(table: LakehouseTable, requested_at: str) -> Mapping[str, str]:
    [instant] = [one for one in table.timeline() if one.requested_at == requested_at]
    return read_instant(table.table, instant).extra_metadata
