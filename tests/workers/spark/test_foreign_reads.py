"""Spark shows of tables that other engines wrote what the same read shows without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bench.support.golden import ARCHIVES, MISSING, unpacked
from workers.concurrency.outcome import Committed
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.storage.local import LocalStorage

pytestmark = pytest.mark.spark

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "part": pa.string()}
SCHEMA = pa.schema(_TYPES)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in rows.to_pylist())


def assert_same(table: LakehouseTable, spark: SparkSession, **request: Any) -> None:
    ours = table.read(**request)
    theirs = table.read(spark, **request).toArrow()
    assert theirs.column_names == ours.column_names
    assert counted(theirs.cast(ours.schema)) == counted(ours), request


@pytest.mark.slow
@pytest.mark.sampled(every=4)
@pytest.mark.skipif(not ARCHIVES, reason=MISSING)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_golden_table_through_spark(archive: Path, tmp_path: Path, spark: SparkSession) -> None:
    table = open_table(unpacked(archive, tmp_path))
    writes = table.table.timeline().list_completed_writes()

    assert_same(table, spark)
    assert_same(table, spark, query="read_optimized")
    if writes:
        middle = writes[len(writes) // 2].completed_at
        assert_same(table, spark, as_of=middle)
        assert_same(table, spark, since=middle)


def test_table_without_meta_columns_through_spark(tmp_path: Path, spark: SparkSession) -> None:
    """Base files and logs: keys are made on the executors as they are here."""
    made = create_table(
        tmp_path / "t",
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    for ts, numbers in ((1, range(40)), (2, range(20, 60))):
        batch = [{"id": f"k{n}", "ts": ts, "part": "ab"[n % 2]} for n in numbers]
        written = made.write(
            pa.Table.from_pylist(batch, schema=SCHEMA),
            options={"hoodie.write.markers.type": "direct"},
        )
        assert isinstance(written, Committed)
        if ts == 1:
            made.compact()
    storage = LocalStorage(tmp_path / "t")
    properties = load_properties(storage)
    store_properties(storage, {**properties, "hoodie.populate.meta.fields": "false"})

    table = open_table(tmp_path / "t")

    assert table.read().num_rows == 60
    assert_same(table, spark)
    assert_same(table, spark, since=table.table.timeline().list_completed_writes()[-2].completed_at)
    assert_same(table, spark, query="cdc", since="earliest")
