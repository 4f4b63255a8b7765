"""Spark tasks write to a bucket and read from it by location, with keys of their environment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bench.support.s3_server import BUCKET, S3Server, hudi_rs_options, shared_server
from tests.support.referee import referee_table
from tests.support.spark_server import start_test_server
from tests.support.sql_statements import CASES, CHANGES, OPTIONS, QUERIES, check, new_table
from tests.support.stream_queries import run_stream
from tests.workers.spark.test_structured_streaming import deliver, run_queries
from workers import run_sql
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.connect_server import ConnectServer, stop_connect_server
from workers.spark.datasource import SluiceDataSource
from workers.spark.session import connect_session
from workers.table_layout import STAGED_FRAMES

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "text": pa.string()}
ROWS = 20_000


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    server = shared_server()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def server(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    work_dir: Path = tmp_path_factory.mktemp("spark")
    server = start_test_server(work_dir, {**os.environ, **s3.environment})
    yield server
    stop_connect_server(server)


@pytest.fixture(scope="module")
def session(server: ConnectServer) -> Iterator[SparkSession]:
    spark = connect_session(
        server.remote,
        session_id=str(uuid.uuid4()),
        user_id="tests",
        settings={"spark.sql.shuffle.partitions": "2"},
    )
    spark.dataSource.register(SluiceDataSource)
    yield spark
    spark.stop()


def build_frame(session: SparkSession, *, ts: int, rows: int = ROWS) -> object:
    return session.range(rows).selectExpr(
        "concat('k', id) AS id", f"CAST({ts} AS BIGINT) AS ts", f"concat('t{ts}-', id) AS text"
    )


def new_location() -> str:
    return f"s3://{BUCKET}/spark/{uuid.uuid4().hex}"


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_write_and_read_a_bucket(
    s3: S3Server, session: SparkSession, table_type: str
) -> None:
    table = create_texts(table_type)
    assert isinstance(table.write(build_frame(session, ts=1), options=OPTIONS), Committed)
    newer = build_frame(session, ts=2, rows=100)
    assert isinstance(table.write(newer, options=OPTIONS), Committed)

    counts = table.read(session).groupBy("ts").count().orderBy("ts").collect()
    assert [tuple(row) for row in counts] == [(1, ROWS - 100), (2, 100)]
    since = table.timeline()[-2].completed_at
    assert table.read(session, since=since).count() == 100
    referee_rows = referee_table(table.location, hudi_rs_options()).select(["id", "ts", "text"])
    assert referee_rows.sort_by("id").equals(
        table.read().select(["id", "ts", "text"]).sort_by("id")
    )


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", CASES)
def test_statement_that_spark_computes_changes_a_bucket(
    s3: S3Server, session: SparkSession, name: str
) -> None:
    kind = "MERGE_ON_READ" if "merge" in name else "COPY_ON_WRITE"
    table = new_table(new_location(), kind)

    check(CASES[name], table, partial(run_sql, spark=session))

    assert [view.name for view in session.catalog.listTables() if "sluice" in view.name] == []


def test_table_is_created_and_queried_by_statements(s3: S3Server, session: SparkSession) -> None:
    table = run_sql(
        f"""CREATE TABLE t (id BIGINT PRIMARY KEY, city STRING, n INT, at BIGINT)
            LOCATION '{new_location()}'
            TBLPROPERTIES ('type' = 'mor', 'preCombineField' = 'at')""",
        spark=session,
    )
    assert isinstance(table, LakehouseTable)
    values = "(1, 'Oslo', 1, 5), (2, 'Rome', 2, 5), (3, 'Paris', 3, 5)"
    insert = f"INSERT INTO t VALUES {values}"
    run_sql(insert, tables={"t": table}, options=OPTIONS, spark=session)

    for query, rows in QUERIES.values():
        frame = run_sql(query, tables={"t": table, "changes": CHANGES}, spark=session)
        assert [tuple(row) for row in frame.collect()] == rows, query
    with pytest.raises(InvalidInput, match="cannot be computed"):
        run_sql("UPDATE t SET n = nope", tables={"t": table}, options=OPTIONS, spark=session)
    assert table.read().num_rows == 3


def test_views_of_the_data_source_read_and_change_a_bucket(
    s3: S3Server, session: SparkSession
) -> None:
    location = new_table(new_location(), "COPY_ON_WRITE").location
    view = f"(path '{location}', 'hoodie.write.markers.type' 'direct')"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW towns USING sluice OPTIONS {view}")
    session.sql("INSERT INTO towns VALUES (3, 'Lyon', 4, 6), (4, 'Lima', 4, 6)")
    newest = session.read.format("sluice").load(location)
    assert sorted(row["city"] for row in newest.collect()) == ["Lima", "Lyon", "Oslo", "Rome"]

    session.sql("INSERT OVERWRITE towns VALUES (5, 'Bern', 5, 7)")

    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW towns USING sluice OPTIONS {view}")
    assert [row["city"] for row in session.sql("SELECT city FROM towns").collect()] == ["Bern"]


def test_stream_of_one_bucket_table_is_written_into_another_once(
    s3: S3Server, session: SparkSession, tmp_path: Path
) -> None:
    source, sink = create_texts("MERGE_ON_READ"), create_texts("COPY_ON_WRITE")
    source.write(pa.table({"id": ["a", "b"], "ts": [1, 1], "text": ["x", "y"]}), options=OPTIONS)

    run_stream(session, source.location, sink.location, str(tmp_path / "c"), "copy")
    source.write(pa.table({"id": ["b"], "ts": [2], "text": ["z"]}), options=OPTIONS)
    run_stream(session, source.location, sink.location, str(tmp_path / "c"), "copy")

    assert sink.read().sort_by("id")["text"].to_pylist() == ["x", "z"]
    assert sink.table.storage.list_tree(STAGED_FRAMES.path) == []


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_foreach_batch_writes_a_bucket_and_a_repeated_batch_changes_nothing(
    s3: S3Server, server: ConnectServer, tmp_path: Path, kind: str
) -> None:
    table = create_table(
        new_location(),
        name="views",
        schema=pa.schema([pa.field("id", pa.string())])
        .append(pa.field("seen_at", pa.int64()))
        .append(pa.field("views", pa.int64())),
        record_key=["id"],
        ordering=["seen_at"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    early, late = tmp_path / "early", tmp_path / "late"
    deliver(early, "one.parquet", ("a", 5, 50), ("c", 5, 5))
    deliver(late, "two.parquet", ("a", 3, 30), ("b", 9, 90), ("c", 6, 6))
    checkpoints = [tmp_path / name for name in ("first", "second", "lost")]
    queries = zip((early, late, early), checkpoints, strict=True)

    remote = "classic" if kind == "classic" else server.remote
    run_queries(remote, table.location, *(path for query in queries for path in query))

    assert table.read().sort_by("id")["views"].to_pylist() == [50, 90, 6]


def create_texts(table_type: str) -> LakehouseTable:
    return create_table(
        new_location(),
        name="t",
        schema=pa.schema(TYPES),
        record_key=["id"],
        ordering=["ts"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "4"},
    )
