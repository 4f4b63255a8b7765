"""The same code on a classic session, and on a session whose time zone is not ours."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import uuid
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support import spark_daemon
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.spark.connect_server import ConnectServer
from workers.spark.session import SparkUnreachable, connect_session, interrupt

pytestmark = pytest.mark.spark

CLASSIC = """
import sys
import pyarrow as pa
from pyspark.sql import DataFrame
from workers import create_table
from workers.spark.session import classic_session

spark = classic_session(settings={"spark.sql.shuffle.partitions": "2"})
frame = spark.range(100).selectExpr("cast(id as string) as id", "id as ts", "'x' as city")
table = create_table(
    sys.argv[1], name="things", schema=frame.schema, record_key=["id"], ordering=["ts"],
    table_type="MERGE_ON_READ",
)
options = {"hoodie.write.markers.type": "direct"}
table.write(frame, options=options)
table.write(frame.where("ts < 10").selectExpr("id", "ts + 1 as ts", "'y' as city"), options=options)
rows = table.read(spark)
assert isinstance(rows, DataFrame), type(rows)
assert rows.where("city = 'y'").count() == 10
assert rows.toArrow().sort_by("id").equals(table.read().sort_by("id"))
print("same rows", rows.count())
spark.stop()
"""


def test_workers_of_the_tests_are_forked_from_what_has_loaded_the_engine(
    spark: SparkSession,
) -> None:
    """Otherwise each of them spends a second on that."""
    expected = [spark_daemon.__name__, *spark_daemon.LOADED]

    def loaded(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        main = sys.modules["__main__"].__spec__
        names = [main.name if main else "", *(name for name in expected if name in sys.modules)]
        yield pa.record_batch({"name": names})

    rows = spark.range(1, numPartitions=1).mapInArrow(loaded, "name string").collect()

    assert [row.name for row in rows] == expected


@pytest.mark.slow
def test_classic_session_writes_and_reads_the_same(tmp_path: Path) -> None:
    # A Connect session of another test here leaves variables that would ask for one there too.
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))
    }
    ended = subprocess.run(
        [sys.executable, "-c", CLASSIC, str(tmp_path / "table")],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "same rows 100" in ended.stdout


def test_session_in_another_time_zone_stores_the_same_moments(
    tmp_path: Path, server: ConnectServer
) -> None:
    moment = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
    rows = pa.table({"id": ["a"], "at": pa.array([moment], pa.timestamp("us", tz="UTC"))})
    table = create_table(
        tmp_path / "t", name="t", schema=rows.schema, record_key=["id"], ordering=["at"]
    )
    spark = connect_session(server.remote, session_id=str(uuid.uuid4()), user_id="tests")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        table.write(spark.createDataFrame(rows), options={"hoodie.write.markers.type": "direct"})
        seen = table.read(spark).selectExpr("cast(at as double) as at").collect()
    finally:
        spark.stop()

    assert table.read().column("at").to_pylist() == [moment]
    assert [row["at"] for row in seen] == [moment.timestamp()]


def test_session_settings_outside_the_list_are_refused_before_anybody_is_asked() -> None:
    with pytest.raises(InvalidInput, match="allow-list"):
        connect_session(
            "sc://localhost:1",
            session_id=str(uuid.uuid4()),
            user_id="tests",
            settings={"spark.plugins": "evil"},
        )


def test_absent_server_is_said_at_once() -> None:
    with pytest.raises(SparkUnreachable):
        connect_session("sc://localhost:1", session_id=str(uuid.uuid4()), user_id="tests")
    with pytest.raises(SparkUnreachable):
        interrupt("sc://localhost:1", session_id=str(uuid.uuid4()), user_id="tests")


def test_interrupted_session_takes_no_more_work_and_unknown_ones_are_nothing(
    server: ConnectServer,
) -> None:
    session_id = str(uuid.uuid4())
    spark = connect_session(server.remote, session_id=session_id, user_id="tests")
    assert spark.range(3).count() == 3

    interrupt(server.remote, session_id=session_id, user_id="tests")

    with pytest.raises(Exception, match="SESSION_CLOSED"):
        spark.range(3).count()
    assert interrupt(server.remote, session_id=session_id, user_id="tests") == ()
    assert interrupt(server.remote, session_id=str(uuid.uuid4()), user_id="tests") == ()


def test_an_ended_session_is_not_collected_in_the_middle_of_anything(server: ConnectServer) -> None:
    """PySpark's `__del__` waits for a lock that the collecting thread may hold itself."""
    spark = connect_session(server.remote, session_id=str(uuid.uuid4()), user_id="tests")
    watched = weakref.ref(spark)
    spark.stop()
    del spark
    gc.collect()

    assert watched() is not None
