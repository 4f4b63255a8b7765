"""`foreachBatch` on a Connect server without the checkout. The server starts the Python process of
such a function itself, and what a session ships does not reach it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.support.standalone import (
    CONNECT,
    PANDAS,
    TABLES,
    StandaloneCluster,
    bare_connect_server,
    make_bare_python,
)
from tests.support.referee import assert_referee_agrees
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.spark.engine_archive import ENGINE_SETTING, ensure_archive
from workers.spark.foreach_batch import check_foreach_batch
from workers.spark.session import connect_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64()}
SCHEMA = pa.schema(TYPES)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> StandaloneCluster:
    """A server that runs its tasks itself, by a Python with the packages that it needs."""
    folder = tmp_path_factory.mktemp("host")
    python = make_bare_python(folder / "python", (*TABLES, *PANDAS, *CONNECT))
    (folder / "spark").mkdir()
    return StandaloneCluster("local[2]", python, folder / "spark")


@contextmanager
def session_of_server(
    host: StandaloneCluster, environment: Mapping[str, str]
) -> Iterator[SparkSession]:
    # Without the announcement, the engine of the server's Python is not known.
    settings = {ENGINE_SETTING: ""}
    with bare_connect_server(host, settings=settings, environment=environment) as address:
        session = connect_session(address, session_id=str(uuid.uuid4()), user_id="tests")
        yield session
        session.stop()


def test_function_writes_a_table_where_the_server_has_the_engine(
    host: StandaloneCluster, tmp_path: Path
) -> None:
    table = create_table(
        tmp_path / "table", name="rows", schema=SCHEMA, record_key=["id"], ordering=["at"]
    )
    location = table.location
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": ["a", "b"], "at": [1, 2]}, schema=SCHEMA), source / "1.parquet")

    def write(batch: DataFrame, number: int) -> None:
        del number
        from workers.lakehouse import open_table

        open_table(location).write(batch, options={"hoodie.write.markers.type": "direct"})

    with session_of_server(host, {"PYTHONPATH": str(ensure_archive(tmp_path).path)}) as spark:
        check_foreach_batch(spark)
        rows = spark.readStream.schema("id string, at long").parquet(str(source))
        query = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    assert table.read().select(["id", "at"]).to_pylist() == [
        {"id": "a", "at": 1},
        {"id": "b", "at": 2},
    ]
    assert_referee_agrees(location)


@pytest.mark.parametrize(
    ("has_other", "fault"),
    [
        (False, "has no package workers"),
        (True, "has another package workers than this driver"),
    ],
    ids=["none", "another"],
)
def test_a_server_without_this_engine_is_refused(
    host: StandaloneCluster, tmp_path: Path, has_other: bool, fault: str
) -> None:
    environment = {}
    if has_other:
        other = tmp_path / "other" / "workers" / "spark"
        other.mkdir(parents=True)
        (other.parent / "__init__.py").write_text("")
        (other / "__init__.py").write_text("")
        (other / "engine_archive.py").write_text("def engine_digest():\n    return '01de'\n")
        environment["PYTHONPATH"] = str(tmp_path / "other")

    with (
        session_of_server(host, environment) as spark,
        pytest.raises(InvalidInput, match=fault) as refused,
    ):
        check_foreach_batch(spark)

    assert "start the server with the engine's zip on PYTHONPATH" in str(refused.value)
