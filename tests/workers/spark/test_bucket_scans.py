"""Spark reads base files in a bucket itself where its session has Hadoop's client for S3."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
import requests
from pyspark.sql import SparkSession

from bench.support.s3_server import BUCKET, S3Server, shared_server
from tests.support.hadoop_client import PACKAGES
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.connect_server import start_connect_server, stop_connect_server
from workers.spark.session import connect_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]  # It downloads 730 MB.
OPTIONS = {"hoodie.write.markers.type": "direct"}
ENDPOINT = "fs.s3a.endpoint"
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "day": pa.string()}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    server = shared_server()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def remote(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the client. Its credentials are in its environment, as on a cluster."""
    settings = {
        **PACKAGES,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    environment = {**os.environ, **s3.environment}
    work_dir = tmp_path_factory.mktemp("spark")
    server = start_connect_server(
        work_dir, environment=environment, more_settings=settings, wait_s=600
    )
    yield server.remote
    stop_connect_server(server)


@pytest.fixture
def session(remote: str, s3: S3Server) -> Iterator[SparkSession]:
    spark = connect_session(remote, session_id=str(uuid.uuid4()), user_id="tests", settings={})
    spark.conf.set(ENDPOINT, s3.environment["AWS_ENDPOINT_URL"])
    yield spark
    spark.stop()


@pytest.fixture
def table(s3: S3Server) -> LakehouseTable:
    return create_in(BUCKET)


def create_in(bucket: str) -> LakehouseTable:
    table = create_table(
        f"s3://{bucket}/scans/{uuid.uuid4().hex}",
        name="t",
        schema=pa.schema(TYPES),
        record_key=["id"],
        partition_by=["day"],
        ordering=["ts"],
    )
    for ts, keys in ((1, range(100)), (2, range(10))):
        rows = [{"id": f"k{n}", "ts": ts, "day": f"d {n % 2}"} for n in keys]
        assert isinstance(table.write(pa.Table.from_pylist(rows), options=OPTIONS), Committed)
    return table


def get_plan(frame: object) -> str:
    return str(frame._explain_string())  # type: ignore[attr-defined]


def in_order(rows: pa.Table) -> pa.Table:
    return rows.select(["id", "ts", "day"]).sort_by("id")


def test_base_files_are_read_by_spark_where_its_session_has_the_client(
    session: SparkSession, table: LakehouseTable
) -> None:
    frame = table.read(session)
    since = table.timeline()[-2].completed_at

    assert "FileScan parquet" in get_plan(frame)
    assert "s3a://" in get_plan(frame)
    assert in_order(frame.toArrow()).equals(in_order(table.read()))
    window = table.read(session, since=since)
    assert "FileScan parquet" in get_plan(window)
    assert in_order(window.toArrow()).equals(in_order(table.read(since=since)))
    secret = shared_server().environment["AWS_SECRET_ACCESS_KEY"]
    assert secret not in str(frame._explain_string(extended=True))


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9"])
def test_session_that_does_not_reach_the_bucket_reads_by_our_reader(
    session: SparkSession, s3: S3Server, endpoint: str
) -> None:
    # Hadoop keeps one client for each bucket, with its first settings.
    bucket = f"far-{uuid.uuid4().hex}"
    requests.put(f"{s3.environment['AWS_ENDPOINT_URL']}/{bucket}", timeout=30).raise_for_status()
    table = create_in(bucket)
    session.conf.set(ENDPOINT, endpoint)
    for name in ("fs.s3a.attempts.maximum", "fs.s3a.retry.limit"):
        session.conf.set(name, "1")

    frame = table.read(session)

    assert "FileScan" not in get_plan(frame)
    assert frame.count() == 100
