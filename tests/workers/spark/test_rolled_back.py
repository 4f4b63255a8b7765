"""A data frame whose instant others roll back while its tasks run: the whole write stops."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.classic_environment import classic_environment
from tests.support.fencing import only_decide, roll_back, wait_until
from tests.support.fixtures import pytest_runtest_makereport, tables, tables_root
from tests.support.scenario_table import MODES, ScenarioTable, ScenarioTables, schema_of
from tests.support.spark_faults import linger, start_then_wait_for_the_rival, started
from tests.support.spark_tasks import run_tasks
from workers.concurrency.outcome import CommitOutcome, RolledBack
from workers.concurrency.read_set import ReadSet
from workers.options.write_options import write_options
from workers.spark.write import carry_out
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.write.client import WriteClient

__all__ = ["pytest_runtest_makereport", "tables", "tables_root"]

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
PARTS, SLOTS = 24, 4
INTERVAL_MS = 1_000
OPTIONS = {
    "hoodie.write.concurrency.mode": MODES["optimistic"],
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": str(INTERVAL_MS),
    "sluice.writer.name": "victim",
}
KEYS = schema_of(id=pa.int64(), city=pa.string())
ROWS = pa.table({"id": pa.array(range(1, 500)), "city": ["Bergen"] * 499}, KEYS)


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    made = tables(schema=KEYS, options={"hoodie.bucket.index.num.buckets": str(PARTS)})
    made.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "ends",
    [roll_back, only_decide],
    ids=lambda ends: ends.__name__,
)
def test_the_write_is_cancelled_as_a_whole_and_its_outcome_says_who_rolled_it_back(
    table: ScenarioTable,
    spark: SparkSession,
    tmp_path: Path,
    ends: Callable[[ScenarioTable, str], None],
) -> None:
    transaction = WriteClient(table.table, write_options(OPTIONS)).begin(KEYS)
    frame = spark.createDataFrame(ROWS)
    context = transaction.context
    write = partial(start_then_wait_for_the_rival, str(tmp_path))

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(
            carry_out,
            table.table,
            transaction,
            spark,
            lambda tag, watch: (
                run_tasks(frame, context, tag, write, task_bytes=1, watch=watch),
                (),
                ReadSet(),
            ),
        )
        wait_until(lambda: len(started(tmp_path)) == SLOTS, job)
        ends(table, transaction.instant)
        (tmp_path / "rival").touch()  # They go on, and meet the fence.
        outcome = job.result()

    assert_nothing_of_it_stays(table, outcome, tmp_path)


@pytest.mark.slow
def test_tasks_that_never_look_are_cancelled_as_well(
    table: ScenarioTable, spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame(ROWS).repartition(PARTS)
    slow = frame.mapInArrow(partial(linger, str(tmp_path)), "id bigint, city string")

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(table.lakehouse.write, slow, options=OPTIONS)
        wait_until(lambda: len(started(tmp_path)) == SLOTS, job)
        [victim] = table.table.timeline().pending()
        roll_back(table, victim.requested_at)
        outcome = job.result()

    assert_nothing_of_it_stays(table, outcome, tmp_path)


@pytest.mark.slow
def test_a_session_without_spark_connect_cancels_its_write_as_well(tmp_path: Path) -> None:
    """Its watch is another thread than the one that began the job."""
    words = [sys.executable, "-m", "tests.support.classic_write", str(tmp_path)]

    ran = subprocess.run(
        words,
        env=classic_environment(),
        cwd=ROOT,
        timeout=150,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["outcome"] == "RolledBack"
    assert len(said["started"]) == 2, "a task that waited was started"
    assert all(name.endswith("-0") for name in said["started"]), "a task was tried again"


def assert_nothing_of_it_stays(table: ScenarioTable, outcome: CommitOutcome, flags: Path) -> None:
    assert isinstance(outcome, RolledBack), outcome
    assert outcome.reason == "it runs too long"
    decision = decisions.read(table.storage, outcome.instant)
    assert isinstance(decision, RollbackDecision)
    assert outcome.by == decision.by
    at_end = started(flags)
    assert len(at_end) == SLOTS, "a task that waited was started"
    assert all(name.endswith("-0") for name in at_end), "a task was tried again"
    time.sleep(1.0)
    assert started(flags) == at_end
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.orphan_files() == table.leftovers() == []
    actions = [action for action, _ in table.timeline()]
    assert actions.count("rollback") == 1
    assert all(one.is_completed for one in table.instants())
