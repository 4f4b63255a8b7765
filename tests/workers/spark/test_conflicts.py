"""A frame whose write meets a faster rival."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.invariants import leftovers, orphan_files
from tests.support.referee import assert_referee_agrees
from tests.support.spark_rival import OPTIONS, met_by_a_rival_once
from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table
from workers.timeline.instant import State

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [f"k{n}" for n in range(40)], "ts": [1] * 40})
RIVAL = pa.table({"id": ["k1", "rival"], "ts": [2, 2]})


def test_frame_that_lost_is_written_again_on_the_table_as_it_is_then(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = create_table(
        tmp_path / "table",
        name="things",
        schema=ROWS.schema,
        record_key=["id"],
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.write(ROWS, options=OPTIONS)
    meets = partial(met_by_a_rival_once, table.location, RIVAL, str(tmp_path / "met"))
    frame = spark.createDataFrame(ROWS).mapInArrow(meets, "id string, ts bigint")

    outcome = table.write(
        frame, options={**OPTIONS, "hoodie.write.num.retries.on.conflict.failures": "1"}
    )

    assert isinstance(outcome, Committed), outcome
    found = dict(zip(*table.read().to_pydict().values(), strict=True))
    assert found == {f"k{n}": 1 for n in range(40)} | {"k1": 2, "rival": 2}
    actions = [one.action.value for one in table.timeline()]
    assert actions == ["commit", "commit", "commit", "rollback", "commit"]
    assert {one.state for one in table.timeline()} == {State.COMPLETED}
    assert orphan_files(table.table) == leftovers(table.table) == []
    assert_referee_agrees(table.location)
