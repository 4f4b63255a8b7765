"""The reader of streams as Spark calls it, without Spark: a new one after each restart, offsets
through JSON, parts of a batch pickled for tasks.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from workers.errors import InvalidInput, SnapshotExpired
from workers.lakehouse import LakehouseTable, create_table
from workers.schema.alter import AddColumn
from workers.spark.datasource import SluiceDataSource

DIRECT = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)
START = "hoodie.datasource.streaming.startOffset"
Offset = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return made(tmp_path / "table")


def made(where: Path) -> LakehouseTable:
    return create_table(
        where,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )


def write(table: LakehouseTable, *numbers: int, operation: str = "upsert") -> str:
    rows = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)
    outcome: Any = table.write(rows, operation=operation, options=DIRECT)
    return str(outcome.instant)


class Query:
    """A streaming query of one table, started with the columns that the table has by then."""

    def __init__(self, table: LakehouseTable, **options: str) -> None:
        given = CaseInsensitiveDict({"path": table.location, **options})
        self.source = SluiceDataSource(given)
        self.schema: Any = self.source.schema()
        self.reader = self.source.streamReader(self.schema)

    def begin(self) -> Offset:
        return dict(json.loads(json.dumps(self.reader.initialOffset())))

    def latest(self) -> Offset:
        return dict(json.loads(json.dumps(self.reader.latestOffset())))

    def rows(self, start: Offset, end: Offset) -> list[dict[str, Any]]:
        parts = self.reader.partitions(start, end)
        shipped = cloudpickle.loads(cloudpickle.dumps((self.reader, parts)))
        batches = [batch for part in shipped[1] for batch in shipped[0].read(part)]
        return [row for batch in batches for row in batch.to_pylist()]

    def numbers(self, start: Offset, end: Offset) -> list[int]:
        return sorted(row["n"] for row in self.rows(start, end))


def test_each_commit_is_in_one_batch_whoever_reads_and_whatever_was_rewritten_since(
    table: LakehouseTable,
) -> None:
    begin = Query(table).latest()
    assert Query(table).begin() == {"completed_at": "0" * 17, "commit": ""}
    write(table, 1, 2)
    first = Query(table).latest()
    write(table, 3)
    write(table, 4)
    second = Query(table).latest()
    table.compact()
    write(table, 5)
    for _ in range(4):
        write(table, 6)
    table.archive({"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    third = Query(table).latest()

    for _ in range(2):  # Sent again.
        assert Query(table).numbers(begin, first) == [1, 2]
        assert Query(table).numbers(first, second) == [3, 4]
    assert Query(table).numbers(second, third) == [5, 6]
    assert Query(table).rows(third, Query(table).latest()) == []
    assert Query(table).numbers(Query(table).begin(), third) == [1, 2, 3, 4, 5, 6]


def test_stream_begins_where_its_option_says(table: LakehouseTable) -> None:
    write(table, 1)
    then = table.table.timeline().list_completed_writes()[-1].completed_at
    write(table, 2)
    latest = Query(table, **{START: "latest"})
    after = Query(table, **{START: then or ""})
    begins = latest.begin(), after.begin()
    write(table, 3)

    assert latest.numbers(begins[0], latest.latest()) == [3]
    assert after.numbers(begins[1], after.latest()) == [2, 3]
    tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).isoformat()
    with pytest.raises(InvalidInput, match="still to come"):
        Query(table, **{START: tomorrow}).begin()


def test_batch_whose_files_were_cleaned_away_is_refused(table: LakehouseTable) -> None:
    write(table, 1)
    begin, end = Query(table).begin(), Query(table).latest()
    for n in (2, 3, 1):
        write(table, n)
        table.compact()
    table.clean({"hoodie.cleaner.commits.retained": "1"})

    with pytest.raises(SnapshotExpired, match="start the query with a new checkpoint") as caught:
        Query(table).numbers(begin, end)

    assert caught.value.values["until"] == end["completed_at"]
    assert Query(table).numbers(end, Query(table).latest()) == [1, 2, 3]


def test_commit_that_was_delivered_and_is_gone_stops_the_stream(
    tmp_path: Path, table: LakehouseTable
) -> None:
    write(table, 1)
    first = Query(table).latest()
    instant = write(table, 2)
    second = Query(table).latest()
    plan: Any = table.rollback(instant)
    table.rollback(instant, dry_run=False, expected_plan_hash=plan.plan_hash, reason="test")
    other = made(tmp_path / "other")
    write(other, 9)

    assert Query(table).latest() == first
    for here in (table, other):
        with pytest.raises(InvalidInput, match="no longer holds a commit"):
            Query(here).rows(second, Query(here).latest())
    with pytest.raises(InvalidInput, match="no longer holds a commit"):
        Query(table).rows(first, second)


def test_columns_that_change_underway_stop_the_query_and_a_restart_goes_on(
    table: LakehouseTable,
) -> None:
    write(table, 1)
    before, narrow = Query(table), Query(table, columns="n")
    begin, end = before.begin(), before.latest()
    table.alter(AddColumn("note", pa.string()))
    rows = pa.table({"id": ["k2"], "n": [2], "note": ["new"]})
    table.write(rows, options=DIRECT)
    newest = before.latest()

    for start in (begin, end):
        with pytest.raises(InvalidInput, match="columns have changed") as caught:
            before.rows(start, newest)
        assert caught.value.values["now"] == ["note string"]
    restarted = Query(table)
    assert restarted.rows(begin, end) == [{"id": "k1", "n": 1, "note": None}]
    assert restarted.rows(end, newest) == [{"id": "k2", "n": 2, "note": "new"}]
    assert narrow.numbers(begin, newest) == [1, 2]  # It has all that it asked for.


def test_rows_and_columns_that_a_stream_asks_for(table: LakehouseTable) -> None:
    write(table, 1, 2, 3)
    query = Query(table, where="n > 1", columns="n, _hoodie_record_key")

    rows = query.rows(query.begin(), query.latest())

    assert sorted(row["n"] for row in rows) == [2, 3]
    assert {tuple(row) for row in rows} == {("n", "_hoodie_record_key")}


def test_changes_are_a_stream_too(table: LakehouseTable) -> None:
    write(table, 1)
    query = Query(table, query="cdc")
    first = query.latest()
    write(table, 2)
    second = query.latest()
    write(table, 2, operation="delete")
    table.alter(AddColumn("note", pa.string()))
    third = Query(table, query="cdc").latest()

    assert isinstance(query.schema, StructType)
    restarted = Query(table, query="cdc")
    batches = [(query.begin(), first), (first, second), (second, third)]
    ops = [
        [(row["op"], row["before"], row["after"]) for row in restarted.rows(*b)] for b in batches
    ]
    k1, k2 = ({"id": f"k{n}", "n": n, "note": None} for n in (1, 2))
    assert ops == [[("i", None, k1)], [("i", None, k2)], [("d", k2, None)]]
    with pytest.raises(InvalidInput, match="not with changes"):
        Query(table, query="cdc", where="n = 1").rows(first, third)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"as.of.instant": "0"}, "a stream has no end"),
        ({"hoodie.datasource.read.begin.instanttime": "0"}, "a stream has no end"),
        ({"query": "read_optimized"}, "a stream gives rows as they come"),
        ({"hoodie.datasource.streaming.startOfset": "latest"}, "unknown read option"),
    ],
)
def test_options_that_are_not_of_streams_are_refused(
    table: LakehouseTable, options: dict[str, str], reason: str
) -> None:
    source = SluiceDataSource(CaseInsensitiveDict({"path": table.location, **options}))

    with pytest.raises(InvalidInput, match=reason):
        source.streamReader(StructType())


def test_checkpoint_of_another_source_is_refused(table: LakehouseTable) -> None:
    with pytest.raises(InvalidInput, match="of another source"):
        Query(table).rows({"0": 5}, Query(table).latest())
    with pytest.raises(InvalidInput, match="a stream begins there"):
        Query(table, **{START: "latest"}).source.reader(StructType())
