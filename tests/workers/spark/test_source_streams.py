"""A table that is read as a stream and written as a stream by Spark, over restarts from the
checkpoint.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.stream_queries import run_stream
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.datasource import SluiceDataSource
from workers.table.schema_history import read_instant
from workers.write.epochs import EPOCHS_KEY, QUERY_KEY

pytestmark = pytest.mark.spark

DIRECT = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)


def made(where: Path) -> LakehouseTable:
    return create_table(
        where,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )


def write(table: LakehouseTable, *numbers: int) -> None:
    rows = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)
    table.write(rows, options=DIRECT)


def forget_last_commit(checkpoint: Path) -> None:
    """As a driver leaves it that died after the sink's commit."""
    last = max((one for one in (checkpoint / "commits").glob("[0-9]*")), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()


@pytest.mark.slow
def test_a_stream_of_one_table_is_an_epoch_of_another(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(SluiceDataSource)
    source, sink = made(tmp_path / "source"), made(tmp_path / "sink")
    write(source, 1, 2)

    run_stream(spark, source.location, sink.location, str(tmp_path / "c"), "copy")

    assert sorted(sink.read().column("n").to_pylist()) == [1, 2]
    [commit] = stream_commits(sink)
    assert commit[EPOCHS_KEY] == '{"copy": "0"}'
    assert commit[QUERY_KEY] in (tmp_path / "c" / "metadata").read_text()


@pytest.mark.slow
def test_rows_reach_the_sink_once_over_restarts_from_the_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(SluiceDataSource)
    source, sink, checkpoint = made(tmp_path / "source"), made(tmp_path / "sink"), tmp_path / "c"

    def run(folder: Path = checkpoint) -> list[int]:
        run_stream(spark, source.location, sink.location, str(folder), "copy")
        return sorted(sink.read().column("n").to_pylist())

    write(source, 1, 2)
    first = run()
    write(source, 3)
    forget_last_commit(checkpoint)

    assert first == [1, 2]
    assert run() == [1, 2]  # The first epoch is sent again.
    assert run() == [1, 2, 3]
    assert [one[EPOCHS_KEY] for one in stream_commits(sink)] == ['{"copy": "0"}', '{"copy": "1"}']
    assert len({one[QUERY_KEY] for one in stream_commits(sink)}) == 1
    with pytest.raises(PySparkException, match="belongs to another streaming query") as caught:
        run(tmp_path / "another")
    assert "Traceback" not in str(caught.value)


def stream_commits(sink: LakehouseTable) -> list[dict[str, str]]:
    """What the commits of the stream say."""
    writes = sink.table.timeline().list_completed_writes()
    contents = [read_instant(sink.table, one).extra_metadata for one in writes]
    return [one for one in contents if EPOCHS_KEY in one]
