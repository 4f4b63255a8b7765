"""Spark writes lose to the rollback of a commit that they read: frames whose keys tasks look up,
and statements.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.test_deletes_beside_inserts import OPTIMISTIC, RETRIES, Beside
from tests.workers.spark.test_looked_up_keys import OPTIONS, made, rows, snapshot
from workers.clock import InstantTime
from workers.concurrency.outcome import Committed, Conflicted
from workers.lakehouse import LakehouseTable
from workers.sql.run import run_sql

pytestmark = pytest.mark.spark


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    table = made(tmp_path / "table", "MERGE_ON_READ", "SIMPLE")
    table.write(rows(range(3000, 3010), 1), options=OPTIONS)
    return table


def undo(table: LakehouseTable, instant: InstantTime) -> None:
    table.rollback(instant, dry_run=False, reason="it was wrong")


def test_a_frame_loses_to_the_rollback_of_a_commit_whose_keys_its_tasks_read(
    table: LakehouseTable, spark: SparkSession, beside: Beside
) -> None:
    undone = table.write(rows(range(3000), 1), options=OPTIONS)
    assert isinstance(undone, Committed)

    def rival() -> None:
        undo(table, undone.instant)
        table.write(rows(range(5), 2), options=OPTIONS)

    beside(rival)
    frame = spark.createDataFrame(rows(range(3000), 3)).repartition(3)

    outcome = table.write(frame, options=OPTIONS | OPTIMISTIC | RETRIES)

    assert isinstance(outcome, Committed), outcome
    assert outcome.attempts == 2
    stored = snapshot(table)  # Each key stands once.
    assert len(stored) == 3010
    assert {one["ts"] for one in stored if one["id"] < "k03000"} == {3}


def test_a_statement_loses_to_the_rollback_of_a_commit_that_it_read(
    table: LakehouseTable, spark: SparkSession, beside: Beside
) -> None:
    undone = table.write(rows(range(3000, 3003), 9), options=OPTIONS)
    assert isinstance(undone, Committed)
    beside(lambda: undo(table, undone.instant))

    outcome = run_sql(
        "DELETE FROM t WHERE ts = 9", tables={"t": table}, spark=spark, options=OPTIMISTIC
    )

    assert isinstance(outcome, Conflicted), outcome
    assert (outcome.conflict.rule, outcome.conflict.rival) == ("taken_back", undone.instant)
    assert {one["ts"] for one in snapshot(table)} == {1}
    assert len(snapshot(table)) == 10
