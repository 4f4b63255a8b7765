"""One Spark Connect server for all tests of a process, started when the first of them needs it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import spark_daemon
from tests.support.leftovers import shared_by_all_tests
from workers.spark.connect_server import ConnectServer, start_connect_server, stop_connect_server
from workers.spark.session import connect_session


def start_test_server(
    work_dir: Path, environment: Mapping[str, str] | None = None
) -> ConnectServer:
    """However long it takes on a machine that has other work."""
    return start_connect_server(
        work_dir,
        environment=environment,
        heap="1g",
        master="local[4,4]",
        wait_s=300.0,
        more_settings={"spark.python.daemon.module": spark_daemon.__name__},
    )


@cache
def shared_server() -> ConnectServer:
    work_dir = Path(tempfile.mkdtemp(prefix="sluice-spark-"))
    with shared_by_all_tests():
        server = start_test_server(work_dir)

    def stop() -> None:
        stop_connect_server(server)
        shutil.rmtree(work_dir, ignore_errors=True)

    atexit.register(stop)
    return server


@contextmanager
def new_session() -> Iterator[SparkSession]:
    spark = connect_session(
        shared_server().remote,
        session_id=str(uuid.uuid4()),
        user_id="tests",
        settings={"spark.sql.shuffle.partitions": "2"},
    )
    try:
        yield spark
    finally:
        spark.stop()
