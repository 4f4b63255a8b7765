"""Compaction and clustering on Spark's executors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.invariants import assert_table_is_sound, leftovers, orphan_files
from tests.support.referee import assert_referee_agrees
from workers.errors import MalformedTable
from workers.lakehouse import LakehouseTable, create_table

TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "value": pa.int64()}
SCHEMA = pa.schema(TYPES)
DIRECT = {"hoodie.write.markers.type": "direct"}


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    """Eight file groups with two logs each."""
    made = create_table(
        tmp_path / "t",
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    for ts in range(3):
        columns = [
            [str(n) for n in range(400)],
            [ts] * 400,
            [(n * 7919 + ts) % 1000 for n in range(400)],
        ]
        made.write(pa.table(columns, schema=SCHEMA), options=DIRECT)
    return made


@pytest.mark.slow
def test_executors_compact_and_the_driver_commits(
    spark: SparkSession, table: LakehouseTable
) -> None:
    before = table.read().sort_by("id")

    outcome = table.compact(spark, options=DIRECT)

    assert outcome.figures["file_groups"] == 8
    assert outcome.figures["log_files"] == 16
    assert table.read().sort_by("id") == before
    assert [one.log_files for one in table.file_groups()] == [()] * 8
    assert orphan_files(table.table) == leftovers(table.table) == []
    assert_table_is_sound(table.location)
    assert_referee_agrees(table.location)


def test_executors_sort(spark: SparkSession, table: LakehouseTable) -> None:
    before = table.read().sort_by("id")

    outcome = table.cluster(["value"], spark, options=DIRECT)

    assert outcome.figures["rows"] == 400
    assert table.read().sort_by("id") == before
    assert_referee_agrees(table.location)


@pytest.mark.slow
def test_what_a_task_raises_reaches_the_driver_and_the_plan_stays(
    spark: SparkSession, table: LakehouseTable
) -> None:
    log = Path(table.location) / table.file_groups()[3].log_files[0]
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"PAR1", b"JUNK"))

    with pytest.raises(MalformedTable):
        table.compact(spark, options=DIRECT)

    [pending] = table.table.timeline().pending()
    assert orphan_files(table.table) == []
    log.write_bytes(whole)
    assert table.compact(spark, options=DIRECT).instant == pending.requested_at
