"""A cluster whose Python lacks the checkout: the engine ships itself, and everything works.

A standalone master and two workers of one core run each test. Its Connect server lacks the checkout
as well, so tasks have the engine by the session's zip alone.
"""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from bench.support.standalone import (
    KAFKA,
    PANDAS,
    TABLES,
    StandaloneCluster,
    bare_connect_server,
    bare_environment,
    make_bare_python,
    standalone_cluster,
)
from tests.sink.conftest import SCHEMA as RECORDS
from tests.support import spark_faults
from tests.support.fixtures import MarkerServerAddress, marker_server, tables_root
from tests.support.kafka import eventually, fresh_topic, kafka, topics
from tests.support.referee import assert_referee_agrees
from tests.support.sink_run import ask_to_stop, assert_each_offset_once, has_committed, send
from tests.support.spark_tasks import run_tasks
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.markers.store import read_markers
from workers.options.early_detection import EarlyStrategy
from workers.options.write_options import write_options
from workers.ports import system_ports
from workers.recovery.rollback import RollbackOutcome
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.sink.tables import create_append_table
from workers.spark.engine_archive import engine_digest, ensure_archive
from workers.spark.failures import await_losers
from workers.spark.foreach_batch import check_foreach_batch
from workers.spark.remote_packages import count_slots, fetch_executors
from workers.spark.row_jobs import write_owned
from workers.spark.session import connect_session
from workers.spark.sink import SinkEnded, run_sink
from workers.storage.opener import open_storage
from workers.table.table import open_
from workers.write.client import WriteClient
from workers.write.instant_cleanup import delete_unreferenced_files

__all__ = ["kafka", "marker_server", "tables_root", "topics"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

DIRECT = {"hoodie.write.markers.type": "direct"}
ROWS = 20_000
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64(), "part": pa.string()}
ROW_SCHEMA = pa.schema(TYPES)
EARLY = "hoodie.write.concurrency.early.conflict"
cloudpickle.register_pickle_by_value(spark_faults)
"""Executors have no tests either."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = make_bare_python(folder / "python", (*TABLES, *PANDAS, *KAFKA))
    with standalone_cluster(folder / "spark", python, processors=(0, 1)) as running:
        yield running


@pytest.fixture(scope="module")
def remote(cluster: StandaloneCluster) -> Iterator[str]:
    with bare_connect_server(cluster) as address:
        yield address


@pytest.fixture(scope="module")
def spark(remote: str) -> Iterator[SparkSession]:
    session = connect_session(
        remote,
        session_id=str(uuid.uuid4()),
        user_id="tests",
        settings={"spark.sql.shuffle.partitions": "2"},
    )
    yield session
    session.stop()


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="rows",
        schema=ROW_SCHEMA,
        record_key=["id"],
        ordering=["at"],
        partition_by=["part"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )


def frame(spark: SparkSession, *, plus: int = 0) -> Any:
    """Rows that are too many for the driver to write, in two partitions of Spark."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "concat('k', id) AS id", f"id + {plus} AS at", "concat('p', id % 4) AS part"
    )


def assert_rows(table: LakehouseTable, spark: SparkSession, *, plus: int = 0) -> None:
    """Through Spark and without it."""
    expected = sum(range(ROWS)) + ROWS * plus
    rows = table.read()
    totals = table.read(spark).selectExpr("count(*) AS n", "sum(at) AS total").collect()[0]

    assert (rows.num_rows, sum(rows.column("at").to_pylist())) == (ROWS, expected)
    assert (totals["n"], totals["total"]) == (ROWS, expected)


def test_both_executors_lack_the_checkout_and_get_the_engine(
    cluster: StandaloneCluster, spark: SparkSession, tmp_path: Path
) -> None:
    alone = subprocess.run(
        [str(cluster.python), "-c", "import workers"],
        cwd=tmp_path,
        env=bare_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'workers'" in alone.stderr

    executors = fetch_executors(spark)

    assert len({facts.place for facts in executors}) == 2
    assert {facts.engine for facts in executors} == {engine_digest()}
    assert {facts.packages["obstore"] for facts in executors} == {""}
    assert count_slots(spark) == 2
    assert ensure_archive().bytes <= 2_000_000


def test_bulk_insert_upsert_and_compaction(table: LakehouseTable, spark: SparkSession) -> None:
    inserted = table.write(frame(spark), "bulk_insert", options=DIRECT)
    assert_rows(table, spark)
    upserted = table.write(frame(spark, plus=1), options=DIRECT)
    assert_rows(table, spark, plus=1)
    assert any(file_slice.log_files for file_slice in table.file_groups())

    compacted = table.compact(spark)

    assert isinstance(inserted, Committed)
    assert isinstance(upserted, Committed)
    assert compacted.instant is not None
    assert not any(file_slice.log_files for file_slice in table.file_groups())
    assert_rows(table, spark, plus=1)
    assert_referee_agrees(table.location)


def write_with(
    table: LakehouseTable, spark: SparkSession, write: Any
) -> tuple[Any, list[str], list[str]]:
    """Upsert by a faulty function; the outcome, all attempted files, and those that Spark took."""
    table.write(frame(spark), "bulk_insert", options=DIRECT)
    transaction = WriteClient(table.table, write_options(DIRECT)).begin(ROW_SCHEMA)
    instant = transaction.instant
    statuses = run_tasks(
        frame(spark, plus=1), transaction.context, f"test-{instant}", write, task_bytes=1
    )
    attempted = [marker.data_path for marker in read_markers(table.table.storage, instant)]
    committed = sorted(status.stat.path for status in statuses)
    await_losers(table.table, instant, committed)
    delete_unreferenced_files(table.table.storage, instant, statuses)
    return transaction.commit(statuses), attempted, committed


def test_a_task_that_failed_is_tried_again(table: LakehouseTable, spark: SparkSession) -> None:
    outcome, attempted, committed = write_with(table, spark, spark_faults.write_then_fail_once)

    assert isinstance(outcome, Committed)
    assert len(attempted) > len(committed)
    assert_rows(table, spark, plus=1)


def test_a_new_executor_gets_the_engine_after_one_was_killed(
    table: LakehouseTable, spark: SparkSession, tmp_path: Path
) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    before = {facts.place for facts in fetch_executors(spark)}

    outcome, attempted, committed = write_with(
        table, spark, partial(spark_faults.write_then_lose_executor_once, str(flags))
    )

    assert isinstance(outcome, Committed)
    assert (flags / "first").exists()
    assert len(attempted) > len(committed)
    assert_rows(table, spark, plus=1)
    eventually(lambda: len(fetch_executors(spark)) == 2)
    assert {facts.place for facts in fetch_executors(spark)} != before


def test_a_commit_is_rolled_back(table: LakehouseTable, spark: SparkSession) -> None:
    table.write(frame(spark), "bulk_insert", options=DIRECT)
    second = table.write(frame(spark, plus=1), options=DIRECT)
    assert isinstance(second, Committed)

    outcome = table.rollback(second.instant, dry_run=False, reason="a test")

    assert isinstance(outcome, RollbackOutcome)
    assert_rows(table, spark)


def test_three_streams_write_one_table_at_once(tmp_path: Path, spark: SparkSession) -> None:
    streams = ("views", "clicks", "buys")
    groups = [
        {"name": name, "ordering": [f"{name}_at"], "columns": [f"{name}_n"]} for name in streams
    ]
    columns: dict[str, pa.DataType] = {"id": pa.string()}
    for name in streams:
        columns |= {f"{name}_at": pa.int64(), f"{name}_n": pa.int64()}
    table = create_table(
        tmp_path / "joined",
        name="joined",
        schema=pa.schema(columns),
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.multistream.groups": json.dumps(groups),
        },
    )
    options = {**DIRECT, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}

    def write(name: str) -> Any:
        rows = spark.range(0, ROWS, 1, 2).selectExpr(
            "concat('k', id) AS id", f"id AS {name}_at", f"id * 2 AS {name}_n"
        )
        own = LakehouseTable(open_(open_storage(table.location), system_ports()))
        return own.write(rows, stream=name, options=options)

    with ThreadPoolExecutor(len(streams)) as pool:
        outcomes = list(pool.map(write, streams))

    assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
    joined = table.read()
    assert joined.num_rows == ROWS
    for name in streams:
        assert sum(joined.column(f"{name}_n").to_pylist()) == 2 * sum(range(ROWS))


def test_an_early_conflict_is_found_through_the_marker_server(
    tables_root: Path,
    marker_server: MarkerServerAddress,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_MARKER_URL", marker_server.url)
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    early = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        f"{EARLY}.detection.enable": "true",
        f"{EARLY}.detection.strategy": EarlyStrategy.ASYNCHRONOUS.value,
        "hoodie.write.concurrency.async.conflict.detector.period_ms": "200",
        "hoodie.write.markers.type": "timeline_server_based",
    }
    schema = pa.schema([ROW_SCHEMA.field("id"), ROW_SCHEMA.field("at")])
    table = create_table(
        tables_root / f"early-{uuid.uuid4()}",
        name="early",
        schema=schema,
        record_key=["id"],
        ordering=["at"],
        options={"hoodie.bucket.index.num.buckets": "8"},
    )
    rows = spark.range(0, ROWS, 1, 2).selectExpr("concat('k', id) AS id", "id AS at")
    first = WriteClient(table.table, write_options(early)).begin(schema)
    run_tasks(rows, first.context, f"test-{first.instant}", write_owned, task_bytes=1)

    lost = table.write(rows, options=early)

    assert isinstance(lost, Conflicted)
    assert lost.conflict.detected == "early"
    assert lost.conflict.rival == first.instant
    first.abort("the test is over")


def test_a_sink_reads_a_topic_with_its_tasks_on_both_executors(
    kafka: Broker, topics: Topics, tmp_path: Path, spark: SparkSession
) -> None:
    topic, location = fresh_topic(topics, 2), str(tmp_path / "trips")
    create_append_table(
        open_storage(location),
        system_ports(),
        name="trips",
        schema=RECORDS,
        topic=topic,
        partitions=2,
    )
    options = sink_options(kafka, topic)
    for partition in range(2):
        send(kafka, topic, partition, 0, 2_000)
    ended: list[SinkEnded] = []

    def run() -> None:
        table = open_(open_storage(location), system_ports())
        ended.append(run_sink(table, spark, options, secret=b"a secret of the tests"))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        offsets = dict.fromkeys(range(2), 2_000)
        eventually(lambda: bool(ended) or has_committed(location, topic, offsets), within_s=180)
        assert ended == []
    finally:
        ask_to_stop(location, topic)
        thread.join(120)

    assert [sink.is_failed for sink in ended] == [False]
    assert_each_offset_once(location, offsets)


def test_a_sink_with_more_tasks_than_cores_is_refused(
    kafka: Broker, topics: Topics, tmp_path: Path, spark: SparkSession
) -> None:
    topic, storage = fresh_topic(topics, 3), open_storage(str(tmp_path / "trips"))
    schema = RECORDS
    create_append_table(
        storage, system_ports(), name="trips", schema=schema, topic=topic, partitions=3
    )
    options = {**sink_options(kafka, topic), "hoodie.kafka.partitions.per.task": "1"}

    with pytest.raises(InvalidInput, match=r"more tasks at once than Spark runs.*slots=2"):
        run_sink(open_(storage, system_ports()), spark, options, secret=b"a secret of the tests")


def sink_options(kafka: Broker, topic: str) -> Mapping[str, str]:
    return {
        "hoodie.kafka.topic": topic,
        "bootstrap.servers": kafka.bootstrap,
        "hoodie.kafka.control.topic": f"{topic}-control",
        "hoodie.kafka.commit.interval.secs": "1",
        "hoodie.kafka.coordinator.write.timeout.secs": "30",
        "hoodie.kafka.start.offsets": "earliest",
        "hoodie.kafka.compaction.async.enable": "false",
    }


def test_foreach_batch_is_refused_where_the_server_starts_no_python(spark: SparkSession) -> None:
    """It needs the packages of Spark's Connect client, which tasks do not."""
    with pytest.raises(InvalidInput, match=r"foreachBatch cannot be used here.*never answered"):
        check_foreach_batch(spark)
