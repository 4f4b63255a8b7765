"""A compaction on executors whose attempt others end: the whole job stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.fencing import only_decide, roll_back, take_over, wait_until
from tests.support.fixtures import pytest_runtest_makereport, tables, tables_root
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.spark_faults import start_then_rewrite_after_the_rival, started
from workers.errors import InstantRolledBack, LakehouseError, ServiceBusy
from workers.markers.store import read_markers
from workers.options.service_keys import INSTANT
from workers.options.write_options import write_options
from workers.recovery.plan import find_files
from workers.spark.table_services import spark_runner
from workers.table_services.compaction.service import CompactionService
from workers.table_services.service import ServiceOutcome, ServiceRequest

__all__ = ["pytest_runtest_makereport", "tables", "tables_root"]

pytestmark = pytest.mark.spark

GROUPS, SLOTS = 24, 4
ROWS = [{"id": n, "city": "Bergen"} for n in range(300)]
Ends = Callable[[ScenarioTable, str], None]


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    """Merge-on-read, a log in each of its file groups, and a pending compaction of all of them."""
    options = {"hoodie.bucket.index.num.buckets": str(GROUPS)}
    made = tables(table_type="MERGE_ON_READ", options=options)
    for _ in range(2):
        made.writer("ingest").upsert_and_commit(*ROWS)
    made.lakehouse.compact(schedule=True)
    return made


def compacted(
    table: ScenarioTable, instant: str, spark: SparkSession, flags: Path
) -> ServiceOutcome:
    """This plan and no other, should it go."""
    write = partial(start_then_rewrite_after_the_rival, str(flags))
    request = ServiceRequest("operator", parameters={INSTANT: instant})
    return CompactionService(spark_runner(spark, write)).run(
        table.table, request, write_options({})
    )


def pending_of(table: ScenarioTable) -> str:
    [pending] = table.table.timeline().pending()
    return pending.requested_at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "error_type"),
    [
        (roll_back, InstantRolledBack),
        (only_decide, InstantRolledBack),
        (take_over, ServiceBusy),
    ],
    ids=["rolled_back", "decided", "taken_over"],
)
def test_the_job_is_cancelled_as_a_whole_and_the_driver_is_told_why(
    table: ScenarioTable,
    spark: SparkSession,
    tmp_path: Path,
    ends: Ends,
    error_type: type[LakehouseError],
) -> None:
    instant, before = pending_of(table), table.rows()

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(compacted, table, instant, spark, tmp_path)
        wait_until(lambda: len(started(tmp_path)) == SLOTS, job)
        ends(table, instant)
        (tmp_path / "rival").touch()  # They go on, and meet the fence.
        error = job.exception()

    assert isinstance(error, error_type), error
    assert_nobody_goes_on(table, instant, tmp_path)
    assert table.rows() == before


@pytest.mark.slow
def test_tasks_that_never_look_are_cancelled_as_well(
    table: ScenarioTable, spark: SparkSession, tmp_path: Path
) -> None:
    instant, before = pending_of(table), table.rows()

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(compacted, table, instant, spark, tmp_path)
        wait_until(lambda: len(started(tmp_path)) == SLOTS, job)
        roll_back(table, instant)
        error = job.exception(timeout=60)

    assert isinstance(error, InstantRolledBack), error
    assert_nobody_goes_on(table, instant, tmp_path)
    assert table.rows() == before
    assert read_markers(table.storage, instant) == ()


def assert_nobody_goes_on(table: ScenarioTable, instant: str, flags: Path) -> None:
    at_end = started(flags)
    assert len(at_end) == SLOTS, "a task that waited was started"
    assert all(name.endswith("-0") for name in at_end), "a task was tried again"
    time.sleep(1.0)
    assert started(flags) == at_end
    assert find_files(table.table, instant) == []
