"""The writer of streams as Spark calls it, without Spark: a new one for the tasks of each epoch and
one more for each commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict

from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.options.read_keys import STREAM_NAME
from workers.spark.datasource import SluiceDataSource
from workers.spark.datasource.staging import Staged
from workers.spark.datasource.stream_writer import SluiceStreamWriter
from workers.spark.types import to_spark
from workers.table_layout import STAGED_FRAMES

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    options = {"hoodie.bucket.index.num.buckets": "1"}
    return create_table(
        tmp_path / "table", name="t", schema=SCHEMA, record_key=["id"], options=options
    )


def writer(
    table: LakehouseTable,
    options: Mapping[str, str] | None = None,
    *,
    overwrite: bool = False,
    name: str = "clicks",
) -> SluiceStreamWriter:
    given = {
        "path": table.location,
        "checkpointLocation": "/checkpoint",
        "queryName": "q",
        "hoodie.write.markers.type": "direct",
        STREAM_NAME: name,
        **(options or {}),
    }
    source = SluiceDataSource(CaseInsensitiveDict(given))
    return source.streamWriter(to_spark(SCHEMA), overwrite)


def staged(sender: SluiceStreamWriter, *numbers: int, query: str = "q1") -> Staged:
    """A task's message, as of a task of this query."""
    shipped = cloudpickle.loads(cloudpickle.dumps(sender))
    rows = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)
    message = shipped.write(iter(rows.to_batches()))
    return Staged(message.path, query)


def numbers(table: LakehouseTable) -> list[int]:
    return sorted(table.read().column("n").to_pylist())


def writes(table: LakehouseTable) -> int:
    return len(table.table.timeline().list_completed_writes())


def test_each_epoch_with_rows_is_one_commit_and_is_written_once(table: LakehouseTable) -> None:
    before = writes(table)
    messages = [staged(writer(table), 0, 1), None, staged(writer(table)), staged(writer(table), 2)]

    writer(table).commit(messages, 0)
    writer(table).commit([staged(writer(table)), staged(writer(table))], 1)  # No rows.
    writer(table).commit([staged(writer(table), 7)], 2)
    writer(table).commit([staged(writer(table), 7)], 2)  # Sent again.

    assert numbers(table) == [0, 1, 2, 7]
    assert writes(table) == before + 2
    assert table.table.storage.list_tree(STAGED_FRAMES.path) == []


def test_what_an_aborted_or_refused_epoch_staged_is_gone_and_its_commit_stands(
    table: LakehouseTable,
) -> None:
    messages = [staged(writer(table), 0), None]
    writer(table).commit(messages, 0)
    writer(table).abort(messages, 0)  # So Spark does when the answer of the commit was lost.
    writer(table).abort([staged(writer(table), 1), None], 1)
    with pytest.raises(InvalidInput, match="belongs to another streaming query"):
        writer(table).commit([staged(writer(table), 2, query="q2")], 0)
    writer(table, name="orders").commit([staged(writer(table), 3, query="q2")], 0)

    assert numbers(table) == [0, 3]
    assert table.table.storage.list_tree(STAGED_FRAMES.path) == []


def test_complete_output_takes_the_place_of_all_rows(table: LakehouseTable) -> None:
    writer(table, overwrite=True).commit([staged(writer(table), 1, 2)], 0)
    writer(table, overwrite=True).commit([staged(writer(table), 3)], 1)
    assert numbers(table) == [3]

    writer(table, overwrite=True).commit([staged(writer(table))], 2)
    assert numbers(table) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({STREAM_NAME: " "}, "needs a name of its own"),
        ({"hoodie.wrte": "1"}, "unknown write option"),
        ({"hoodie.datasource.write.operation": "nothing"}, "unknown operation"),
    ],
)
def test_stream_that_cannot_be_written_is_refused(
    table: LakehouseTable, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        writer(table, options).commit([staged(writer(table), 1)], 0)
