"""Tables with column groups through Spark give what the same reads give without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.scenario_table import schema_of
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table

pytestmark = pytest.mark.spark

OPTIONS = {"hoodie.write.markers.type": "direct"}
TEXT, LONG = pa.string(), pa.int64()
SCHEMA = schema_of(
    id=TEXT, ts_a=LONG, a1=TEXT, a2=LONG, ts_b=LONG, b1=LONG, b2=pa.list_(LONG), loose=LONG
)
GROUPS = [
    {"name": "a", "ordering": ["ts_a"], "columns": ["a1", "a2"], "defaults": {"a2": -1}},
    {"name": "b", "ordering": ["ts_b"], "columns": ["b1", "b2"], "granularity": "column"},
]


def of_a(ids: range, ts: int, *, gone: bool = False) -> pa.Table:
    count = len(ids)
    columns: dict[str, Any] = {
        "id": [f"k{n:03d}" for n in ids],
        "ts_a": pa.array([ts] * count, LONG),
        "a1": pa.array([f"a{ts}"] * count, TEXT),
        "a2": pa.array([None if n % 3 else ts for n in ids], LONG),
    }
    return pa.table(columns | ({"_hoodie_is_deleted": [True] * count} if gone else {}))


def of_b(ids: range, ts: int, *, loose: bool = False) -> pa.Table:
    count = len(ids)
    columns: dict[str, Any] = {
        "id": [f"k{n:03d}" for n in ids],
        "ts_b": pa.array([ts] * count, LONG),
        "b1": pa.array([ts] * count, LONG),
        "b2": pa.array([[ts, n] for n in ids], pa.list_(LONG)),
    }
    if loose:
        return pa.table(columns | {"loose": pa.array(list(ids), LONG)})
    return pa.table(columns).drop_columns(["b2"] if ts % 2 else [])


def made(where: Path, table_type: str, join: str) -> tuple[LakehouseTable, list[str]]:
    """Both groups out of order, late versions, deletes of a group and of keys; a compaction of
    what is merge-on-read in the middle. Completion times.
    """
    table = create_table(
        where / "table",
        name="wide",
        schema=SCHEMA,
        record_key=["id"],
        table_type=table_type,
        options={
            "hoodie.multistream.groups": json.dumps(GROUPS),
            "hoodie.multistream.join": join,
            "hoodie.bucket.index.num.buckets": "2",
        },
    )
    times = [
        written(table, of_a(range(60), 10)),
        written(table, of_b(range(30, 90), 10, loose=True)),
        written(table, of_a(range(20, 40), 30, gone=True)),
    ]
    if table_type == "MERGE_ON_READ":
        table.compact()
    times += [
        written(table, of_a(range(10, 50), 20)),
        written(table, of_b(range(50, 100), 15)),
        deleted(table, range(70, 75)),
        written(table, of_b(range(73, 80), 12)),
        written(table, of_a(range(80, 110), 40)),
    ]
    return table, times


def written(table: LakehouseTable, rows: pa.Table) -> str:
    outcome = table.write(rows, options=OPTIONS)
    assert isinstance(outcome, Committed)
    return outcome.completed_at


def deleted(table: LakehouseTable, ids: range) -> str:
    outcome = table.delete(of_a(ids, 0).select(["id"]), options=OPTIONS)
    assert isinstance(outcome, Committed)
    return outcome.completed_at


def counted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("join", ["full", "inner"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_query_reads_the_same_with_and_without_spark(
    tmp_path: Path, spark: SparkSession, table_type: str, join: str
) -> None:
    table, times = made(tmp_path, table_type, join)
    queries: list[dict[str, Any]] = [
        {},
        {"shows_unmatched": True},
        {"columns": ["b1", "a2"]},
        {"columns": ["b2", "_hoodie_record_key", "_hoodie_commit_time"]},
        {"as_of": times[2]},
        {"as_of": times[4], "columns": ["a1", "loose"]},
        {"query": "read_optimized"},
        {"since": times[1]},
        {"since": times[3], "until": times[6], "columns": ["id", "_hoodie_commit_time", "b1"]},
        {"query": "cdc", "since": times[0]},
    ]

    for query in queries:
        ours, theirs = table.read(**query), table.read(spark, **query).toArrow()
        assert theirs.column_names == ours.column_names, query
        assert counted(theirs) == counted(ours), query
        assert ours.num_rows, query


def test_compacted_rows_are_those_of_the_logs_and_hidden_ones_stay_hidden(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, _ = made(tmp_path, "MERGE_ON_READ", "inner")
    before = counted(table.read(columns=["id", "a1", "b1"]))
    unmatched = counted(table.read(columns=["id", "a1", "b1"], shows_unmatched=True))

    table.compact()

    for session in (None, spark):
        shown = table.read(session, columns=["id", "a1", "b1"])
        everything = table.read(session, columns=["id", "a1", "b1"], shows_unmatched=True)
        shown, everything = (
            one if session is None else one.toArrow() for one in (shown, everything)
        )
        assert counted(shown) == before
        assert counted(everything) == unmatched
    assert set(before) < set(unmatched)


def test_a_group_that_is_added_hides_no_row_of_an_inner_join_from_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, times = made(tmp_path, "MERGE_ON_READ", "inner")
    columns = ["id", "a1", "b1"]
    before, then = counted(table.read(columns=columns)), counted(table.read(as_of=times[4]))

    table.add_group(
        {"name": "c", "ordering": ["ts_c"], "columns": ["c1"]},
        {"ts_c": LONG, "c1": LONG},
        options=OPTIONS,
    )

    assert counted(table.read(spark, columns=columns).toArrow()) == before
    assert counted(table.read(spark, as_of=times[4]).toArrow()) == then
    changes = table.read(spark, query="cdc", since=times[-1]).toArrow()
    assert "d" not in changes.column("op").to_pylist()
