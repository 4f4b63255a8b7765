"""Services that a write runs by itself after its commit."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import open_table

DIRECT = {"hoodie.write.markers.type": "direct"}
COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}


@pytest.fixture
def streamed(tables: ScenarioTables) -> ScenarioTable:
    return tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )


def _write(table: ScenarioTable, ts: int, options: dict[str, str]) -> None:
    row = {"id": "a", "place": "p", "ts": ts, "value": ts, "note": None}
    rows = pa.Table.from_pylist([row], schema=READINGS)
    outcome = open_table(table.location).write(rows, options={**DIRECT, **options})
    assert isinstance(outcome, Committed)


def test_compaction_runs_whenever_enough_commits_came(streamed: ScenarioTable) -> None:
    done = []
    for ts in range(6):
        _write(streamed, ts, COMPACTS)
        done.append(sum(action == "commit" for action, _ in streamed.timeline()))

    assert done == [0, 0, 1, 1, 1, 2]
    assert streamed.rows("value") == [{"value": 5}]


def test_compaction_may_only_be_scheduled(streamed: ScenarioTable) -> None:
    for ts in range(3):
        _write(
            streamed,
            ts,
            {
                **COMPACTS,
                "hoodie.compact.inline": "false",
                "hoodie.compact.schedule.inline": "true",
            },
        )

    assert streamed.timeline()[-1] == ("compaction", "requested")
    _write(streamed, 9, {})
    open_table(streamed.location).compact(options=DIRECT)
    assert streamed.rows("value") == [{"value": 9}]


def test_clustering_runs_after_a_write(streamed: ScenarioTable) -> None:
    sorts = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.sort.columns": "value",
    }
    for ts in range(2):
        _write(streamed, ts, sorts)

    assert ("replacecommit", "completed") in streamed.timeline()
    assert streamed.rows("value") == [{"value": 1}]


def test_service_that_cannot_run_does_not_fail_the_write(
    streamed: ScenarioTable, caplog: pytest.LogCaptureFixture
) -> None:
    sorts = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.sort.columns": "nothing",
    }

    with caplog.at_level(logging.WARNING):
        _write(streamed, 1, sorts)

    assert "inline service did not run" in caplog.text
    assert streamed.rows("value") == [{"value": 1}]


def test_wrong_setting_is_refused_before_anything_is_written(streamed: ScenarioTable) -> None:
    before = streamed.timeline()

    with pytest.raises(InvalidInput, match="unknown compaction strategy"):
        _write(streamed, 1, {"hoodie.compaction.strategy": "Random"})
    with pytest.raises(InvalidInput, match="neither true nor false"):
        _write(streamed, 1, {"hoodie.compact.inline": "yes"})

    assert streamed.timeline() == before


def test_copy_on_write_table_is_never_compacted(table: ScenarioTable) -> None:
    rows = pa.table({"id": [1], "city": ["Oslo"]})

    open_table(table.location).write(rows, options={**DIRECT, **COMPACTS})

    assert table.timeline()[-1] == ("commit", "completed")


def test_handle_clusters_by_columns(streamed: ScenarioTable) -> None:
    _write(streamed, 1, {})

    outcome = open_table(streamed.location).cluster(["value", "id"], layout="z-order")

    assert outcome.figures["rows"] == 1
    with pytest.raises(InvalidInput, match="list of column names"):
        open_table(streamed.location).cluster("value")
