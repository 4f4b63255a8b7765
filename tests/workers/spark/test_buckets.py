"""Spark tasks write to a bucket and read from it by location, with keys of their environment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bench.support.s3_server import BUCKET, S3Server, hudi_rs_options, shared_server
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.connect_server import connect_server
from workers.spark.session import connect_session

pytestmark = pytest.mark.spark
OPTIONS = {"hoodie.write.markers.type": "direct"}
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
def session(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    work_dir: Path = tmp_path_factory.mktemp("spark")
    with connect_server(work_dir, environment={**os.environ, **s3.environment}) as server:
        spark = connect_session(
            server.remote, session_id=str(uuid.uuid4()), user_id="tests", settings={}
        )
        yield spark
        spark.stop()


def frame(session: SparkSession, *, ts: int, rows: int = ROWS) -> object:
    return session.range(rows).selectExpr(
        "concat('k', id) AS id", f"CAST({ts} AS BIGINT) AS ts", f"concat('t{ts}-', id) AS text"
    )


@pytest.mark.slow
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_write_and_read_a_bucket(
    s3: S3Server, session: SparkSession, table_type: str
) -> None:
    table = made(table_type)
    assert isinstance(table.write(frame(session, ts=1), options=OPTIONS), Committed)
    assert isinstance(table.write(frame(session, ts=2, rows=100), options=OPTIONS), Committed)

    counts = table.read(session).groupBy("ts").count().orderBy("ts").collect()
    assert [tuple(row) for row in counts] == [(1, ROWS - 100), (2, 100)]
    since = table.timeline()[-2].completed_at
    assert table.read(session, since=since).count() == 100
    referee_rows = referee_table(table.location, hudi_rs_options()).select(["id", "ts", "text"])
    assert referee_rows.sort_by("id").equals(
        table.read().select(["id", "ts", "text"]).sort_by("id")
    )


def made(table_type: str) -> LakehouseTable:
    return create_table(
        f"s3://{BUCKET}/spark/{uuid.uuid4().hex}",
        name="t",
        schema=pa.schema(TYPES),
        record_key=["id"],
        ordering=["ts"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "4"},
    )
