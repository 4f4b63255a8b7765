"""Speculative attempts and lost executors on a cluster of two hosts: one attempt's files stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.referee import assert_referee_agrees
from tests.support.spark_faults import (
    linger_once_before_writing,
    write_then_linger_once,
    write_then_lose_executor_once,
)
from tests.support.spark_tasks import run_tasks
from tests.support.standalone_cluster import standalone_session
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.markers.store import read_markers
from workers.options.write_options import write_options
from workers.spark.failures import await_losers
from workers.spark.row_jobs import TaskWrite
from workers.write.client import WriteClient
from workers.write.instant_cleanup import delete_unreferenced_files

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = {"hoodie.write.markers.type": "direct"}
ROWS = pa.table(
    {
        "id": [f"k{number}" for number in range(80)],
        "ts": list(range(80)),
        "part": [f"p{number % 4}" for number in range(80)],
    }
)
PARTITIONS = ("p0", "p1", "p2", "p3")
"""With one file group each."""
_STRAYS_WOULD_SHOW_S = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with standalone_session(tmp_path_factory.mktemp("cluster")) as session:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        yield session


INDEXES = ({"hoodie.bucket.index.num.buckets": "1"}, {"hoodie.index.type": "SIMPLE"})


@pytest.fixture(params=INDEXES, ids=["bucket", "simple"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakehouseTable:
    created = create_table(
        tmp_path / "table",
        name="things",
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        options=request.param,
    )
    created.write(ROWS, options=OPTIONS)
    return created


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("fault", "strays_least"),
    [
        pytest.param(write_then_linger_once, 1, id="speculation-after-writing"),
        pytest.param(linger_once_before_writing, 0, id="speculation-before-writing"),
        pytest.param(write_then_lose_executor_once, 1, id="lost-executor"),
    ],
)
def test_second_attempt_wins_and_nothing_of_the_first_stays(
    table: LakehouseTable, cluster: SparkSession, tmp_path: Path, fault: object, strays_least: int
) -> None:
    """Requirement: the stray attempt's files are gone before the commit is visible."""
    assert callable(fault)
    flags = tmp_path / "flags"
    flags.mkdir()
    write: TaskWrite = partial(fault, str(flags))
    newer = ROWS.set_column(1, "ts", pa.array([1_000 + number for number in range(80)]))
    transaction = WriteClient(table.table, write_options(OPTIONS)).begin(newer.schema)

    frame = cluster.createDataFrame(newer)
    tag = f"test-{transaction.instant}"
    # A task per file group: Spark compares a slow one with the others.
    statuses = run_tasks(frame, transaction.context, tag, write, task_bytes=1)
    attempts = [one.data_path for one in read_markers(table.table.storage, transaction.instant)]
    kept = sorted(one.stat.path for one in statuses)
    await_losers(table.table, transaction.instant, kept)
    delete_unreferenced_files(table.table.storage, transaction.instant, statuses)
    before_commit = data_files(table, transaction.instant)
    outcome = transaction.commit(statuses)

    assert isinstance(outcome, Committed)
    assert (flags / "first").exists()
    assert len(attempts) >= len(kept) + strays_least
    assert before_commit == kept
    assert data_files(table, transaction.instant) == kept
    time.sleep(_STRAYS_WOULD_SHOW_S)
    assert data_files(table, transaction.instant) == kept
    assert Counter(path.partition("/")[0] for path in kept) == dict.fromkeys(PARTITIONS, 1)
    assert sorted(table.read().column("ts").to_pylist()) == list(range(1_000, 1_080))
    assert_referee_agrees(table.location)


def data_files(table: LakehouseTable, instant: str) -> list[str]:
    paths = (one.path for one in table.table.storage.list_tree(""))
    return sorted(
        path for path in paths if not path.startswith(".hoodie/") and f"_{instant}." in path
    )
