"""Attempts that die after writing, and clients that die mid-write: nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.referee import assert_referee_agrees
from tests.support.spark_faults import write_then_fail_once
from tests.support.spark_tasks import run_tasks
from workers.concurrency.outcome import Committed
from workers.jobs import CancelJob
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.spark.connect_server import ConnectServer
from workers.tasks import cancel_write
from workers.timeline.instant import State
from workers.write.client import WriteClient

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "id": [f"k{number}" for number in range(60)],
        "ts": list(range(60)),
        "part": [f"p{number % 3}" for number in range(60)],
    }
)
OPTIONS = {"hoodie.write.markers.type": "direct", "sluice.writer.name": "before"}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakehouseTable:
    created = create_table(
        tmp_path / "table",
        name="things",
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=request.param,
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    created.write(ROWS, options=OPTIONS)
    return created


@pytest.mark.sampled(every=2)
def test_task_that_wrote_and_died_is_retried_and_its_files_are_dropped(
    table: LakehouseTable, spark: SparkSession
) -> None:
    newer = ROWS.set_column(1, "ts", pa.array([1_000 + number for number in range(60)]))
    frame = spark.createDataFrame(newer)
    transaction = WriteClient(table.table, write_options(OPTIONS)).begin(newer.schema)

    tag = f"test-{transaction.instant}"
    write = write_then_fail_once
    statuses = run_tasks(frame, transaction.context, tag, write, task_bytes=1)
    written = data_files(table, transaction.instant)
    outcome = transaction.commit(statuses)

    assert isinstance(outcome, Committed)
    assert len(written) == 2 * len(statuses)
    assert data_files(table, transaction.instant) == sorted(one.stat.path for one in statuses)
    assert sorted(table.read().column("ts").to_pylist()) == list(range(1_000, 1_060))
    assert_referee_agrees(table.location)


@pytest.mark.slow
@pytest.mark.sampled(every=2)
def test_client_killed_mid_write_has_its_tasks_interrupted_and_nothing_of_it_stays(
    table: LakehouseTable, server: ConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_files(table)
    session_id, operation_id = str(uuid.uuid4()), "op-1"
    client = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.support.spark_faults"),
            *(table.location, server.remote, session_id, operation_id),
        ],
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    )
    wait_until(lambda: len(data_files(table)) > len(before) + 20)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    at_kill = len(data_files(table))
    wait_until(lambda: len(data_files(table)) > at_kill + 5)  # Its tasks outlive it.

    monkeypatch.setenv("SLUICE_SPARK_REMOTE", server.remote)
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(tmp_path))
    job = CancelJob(
        operation_id=operation_id,
        table=table.location,
        session_id=session_id,
        user_id="tests",
        pid=client.pid,
        run_dir=str(tmp_path / "run"),
    )
    cancel_write(job.to_message())

    assert data_files(table) == before
    time.sleep(2)
    assert data_files(table) == before
    assert all(one.state is State.COMPLETED for one in table.timeline())
    assert [one.action.value for one in table.timeline()][-1] == "rollback"
    assert sorted(table.read().column("ts").to_pylist()) == list(range(60))
    assert left_behind(table) == []
    assert_referee_agrees(table.location)

    cancel_write(job.to_message())  # Delivered twice, it finds nothing to do.
    assert data_files(table) == before


def data_files(table: LakehouseTable, instant: str = "") -> list[str]:
    paths = (one.path for one in table.table.storage.list_tree(""))
    return sorted(
        path
        for path in paths
        if not path.startswith(".hoodie/")
        and not path.endswith(".hoodie_partition_metadata")
        and instant in path
    )


def left_behind(table: LakehouseTable) -> list[str]:
    storage = table.table.storage
    kept = (".hoodie/.temp", ".hoodie/.heartbeat")
    return [one.path for directory in kept for one in storage.list_tree(directory)]


def wait_until(is_true: object, *, timeout_s: float = 90) -> None:
    assert callable(is_true)
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
