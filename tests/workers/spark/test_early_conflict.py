"""A data frame whose write is doomed while its tasks run: the job is cancelled, not tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.fixtures import (
    MarkerServerAddress,
    marker_server,
    pytest_runtest_makereport,
    tables,
    tables_root,
)
from tests.support.scenario_table import (
    MODES,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
    schema_of,
)
from tests.support.spark_faults import start_then_wait_for_the_rival, started
from tests.support.spark_tasks import run_tasks
from workers.concurrency.outcome import Committed, Conflicted
from workers.options.early_detection import EarlyStrategy
from workers.options.write_options import write_options
from workers.spark.doom_watch import DoomWatch, is_doomed
from workers.spark.failures import stop_tasks
from workers.write.client import WriteClient

__all__ = ["marker_server", "pytest_runtest_makereport", "tables", "tables_root"]

pytestmark = pytest.mark.spark

BUCKETS = 24
SLOTS = 4
EARLY = "hoodie.write.concurrency.early.conflict"
KEYS = schema_of(id=pa.int64(), city=pa.string())
ROWS = pa.table({"id": pa.array(range(1, 500)), "city": ["Bergen"] * 499}, KEYS)


@pytest.fixture(
    params=[
        EarlyStrategy.SIMPLE_DIRECT,
        pytest.param(EarlyStrategy.ASYNCHRONOUS, marks=pytest.mark.slow),
    ],
    ids=lambda strategy: strategy.name.lower(),
)
def early(
    request: pytest.FixtureRequest,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
) -> Mapping[str, str]:
    strategy: EarlyStrategy = request.param
    monkeypatch.setenv("SLUICE_MARKER_URL", marker_server.url)
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    return {
        "hoodie.write.concurrency.mode": MODES["optimistic"],
        f"{EARLY}.detection.enable": "true",
        f"{EARLY}.detection.strategy": strategy.value,
        "hoodie.write.concurrency.async.conflict.detector.period_ms": "200",
        "hoodie.write.markers.type": "direct" if strategy.is_direct else "timeline_server_based",
    }


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    return tables(schema=KEYS, options={"hoodie.bucket.index.num.buckets": str(BUCKETS)})


def older_of(table: ScenarioTable, early: Mapping[str, str]) -> ScenarioWriter:
    """A writer that began before the frame and has written nothing yet."""
    older = table.writer("older", options=early)
    return older.begin(KEYS)


def meets_everybody(older: ScenarioWriter) -> None:
    older.write_batch(ROWS.set_column(1, "city", pa.array(["Oslo"] * ROWS.num_rows)))


@pytest.mark.slow
def test_the_job_is_cancelled_tasks_that_wait_never_start_and_none_is_tried_again(
    table: ScenarioTable, early: Mapping[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    older = older_of(table, early)
    transaction = WriteClient(table.table, write_options(early)).begin(KEYS)
    frame = spark.createDataFrame(ROWS)
    context, tag = transaction.context, f"test-{transaction.instant}"
    write = partial(start_then_wait_for_the_rival, str(tmp_path))

    def runs() -> None:
        with DoomWatch(table.table, context, spark, tag) as watch:
            run_tasks(frame, context, tag, write, task_bytes=1, watch=watch)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(runs)
        wait_until(lambda: len(started(tmp_path)) == SLOTS)
        meets_everybody(older)
        (tmp_path / "rival").touch()
        error = job.exception()
    assert isinstance(error, PySparkException), error
    assert "CANCEL" in str(error).upper()
    assert is_doomed(table.table, context)
    stop_tasks(spark, tag, table.table.ports.clock)
    at_end = started(tmp_path)
    outcome = transaction.lose_early()

    assert isinstance(outcome, Conflicted)
    assert outcome.conflict.detected == "early"
    assert outcome.conflict.rival == older.last_instant
    assert outcome.conflict.wasted_files <= 2 * SLOTS
    assert len(at_end) <= 2 * SLOTS < BUCKETS
    assert all(name.endswith("-0") for name in at_end), "a task was tried again"
    time.sleep(1.0)
    assert started(tmp_path) == at_end
    older.wins()
    assert {row["city"] for row in table.rows()} == {"Oslo"}
    assert table.orphan_files() == table.leftovers() == []


@pytest.mark.slow
def test_a_frame_that_meets_an_older_writer_is_a_conflict_and_wins_once_that_one_is_done(
    table: ScenarioTable, early: Mapping[str, str], spark: SparkSession
) -> None:
    older = older_of(table, early)
    meets_everybody(older)
    frame = spark.createDataFrame(ROWS)
    options = {**early, "hoodie.write.num.retries.on.conflict.failures": "1"}

    first = table.lakehouse.write(frame, options=early)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(table.lakehouse.write, frame, options=options)
        wait_until(lambda: table.timeline().count(("rollback", "completed")) == 2)
        older.wins()
        outcome = second.result()

    assert isinstance(first, Conflicted)
    assert (first.conflict.detected, first.conflict.rival_writer) == ("early", "older")
    assert isinstance(outcome, Committed), outcome
    assert {row["city"] for row in table.rows()} == {"Bergen"}
    assert table.orphan_files() == table.leftovers() == []


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
