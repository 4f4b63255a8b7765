"""One query that loads a table several times through the data source, each time with options of its
own: `where`, `columns` and a time reach the plan of their own load and of no other.

Spark 4.1's `pushFilters` loses rows in each of these queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from workers.lakehouse import LakehouseTable, create_table
from workers.spark.datasource import SluiceDataSource

pytestmark = pytest.mark.spark

FIELDS: list[tuple[str, pa.DataType]] = [
    ("id", pa.string()),
    ("p", pa.int64()),
    ("n", pa.int64()),
    ("ts", pa.int64()),
]
SCHEMA = pa.schema(FIELDS)
DIRECT = {"hoodie.write.markers.type": "direct"}
Load = Callable[..., DataFrame]


def rows(count: int, *, ts: int) -> pa.Table:
    cells = [{"id": f"k{n}", "p": n % 3, "n": n, "ts": ts} for n in range(count)]
    return pa.Table.from_pylist(cells, schema=SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LakehouseTable:
    """Three partitions; half of the rows a second time, in logs."""
    table = create_table(
        tmp_path_factory.mktemp("loads") / "table",
        name="loads",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        partition_by=["p"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.write(rows(12, ts=1), options=DIRECT)
    table.write(rows(6, ts=2), options=DIRECT)
    return table


@pytest.fixture
def load(spark: SparkSession, table: LakehouseTable) -> Iterator[Load]:
    """Loads with options; joins are shuffled, so that equal scans could be taken for one."""
    spark.dataSource.register(SluiceDataSource)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")

    def loaded(**options: str) -> DataFrame:
        return spark.read.format("sluice").options(**options).load(table.location)

    yield loaded
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.slow
def test_each_load_of_a_query_has_its_own_columns_rows_and_time(
    spark: SparkSession, load: Load, table: LakehouseTable
) -> None:
    _, first, _ = [one.completed_at for one in table.table.timeline().list_completed_writes()]
    low, high = load(where="p = 1 AND n < 9"), load(where="p = 2", columns="n,id")
    options = (
        f"path '{table.location}', where 'p = 0', columns 'n,ts,id', 'as.of.instant' '{first}'"
    )
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW zeros_then USING sluice OPTIONS ({options})")
    cases = {
        "joined": low.alias("a").join(high.alias("b"), low.n + 1 == high.n).select("b.n"),
        "one": low.select("n"),
        "filtered besides": low.where("n > 1").select("n"),
        "itself": low.alias("a").join(low.where("n > 1").alias("b"), "id").select("a.n"),
        "then": spark.sql("SELECT n FROM zeros_then WHERE ts = 1"),
    }

    frames = [rows.selectExpr(f"'{case}' AS case", "n") for case, rows in cases.items()]
    given: dict[str, list[int]] = {case: [] for case in cases}
    for row in reduce(DataFrame.union, frames).collect():
        given[row["case"]].append(row["n"])

    assert high.columns == ["n", "id"]
    assert {case: sorted(ns) for case, ns in given.items()} == {
        "joined": [2, 5, 8],
        "one": [1, 4, 7],
        "filtered besides": [4, 7],
        "itself": [4, 7],
        "then": [0, 3, 6, 9],
    }
    spark.catalog.dropTempView("zeros_then")
