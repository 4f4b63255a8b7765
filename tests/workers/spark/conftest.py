"""The Spark Connect server that the tests of a process share, and one session on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_server import new_session, shared_server
from workers.spark.connect_server import ConnectServer


@pytest.fixture(scope="session")
def server() -> ConnectServer:
    return shared_server()


@pytest.fixture(scope="session")
def spark(server: ConnectServer) -> Iterator[SparkSession]:
    with new_session() as session:
        yield session
