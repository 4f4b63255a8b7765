"""Services that a write runs by itself after its commit."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.timeline.instant import Action

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


def test_old_files_are_cleaned_after_a_write(table: ScenarioTable) -> None:
    cleans = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    for city in ("Oslo", "Bergen", "Lund", "Turku"):
        open_table(table.location).write(
            pa.table({"id": [1], "city": [city]}), options={**DIRECT, **cleans}
        )

    assert table.timeline()[-1] == ("clean", "completed")
    assert len(table.data_files()) == 1
    assert table.rows() == [{"id": 1, "city": "Turku"}]


def test_old_instants_are_archived_after_a_write(table: ScenarioTable) -> None:
    archives = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    for number in range(6):
        open_table(table.location).write(
            pa.table({"id": [1], "city": [str(number)]}), options={**DIRECT, **archives}
        )

    handle = open_table(table.location)
    commits = [one for one in handle.timeline() if one.action is Action.COMMIT]
    assert len(commits) <= 3
    assert len(handle.timeline(archived=True)) > len(handle.timeline())
    assert table.rows() == [{"id": 1, "city": "5"}]


def test_nothing_is_cleaned_or_archived_unasked(table: ScenarioTable) -> None:
    limits = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "1"}
    for number in range(4):
        open_table(table.location).write(
            pa.table({"id": [1], "city": [str(number)]}), options={**DIRECT, **limits}
        )

    assert {action for action, _ in table.timeline()} == {"commit"}
    assert len(table.data_files()) == 4


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
    with pytest.raises(InvalidInput, match="KEEP_NOTHING allowed"):
        _write(streamed, 1, {"hoodie.clean.policy": "KEEP_NOTHING"})
    with pytest.raises(InvalidInput, match="more commits would be kept"):
        _write(streamed, 1, {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "99"})

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
