"""What commits tell of each column group: what they brought, passed over and keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers import create_table
from workers.concurrency.outcome import Committed
from workers.group_facts import GROUP_FACTS_KEY, added
from workers.lakehouse import LakehouseTable
from workers.timeline.metadata import read_commit_metadata

GROUPS = [
    {"name": "shop", "ordering": ["shop_ts"], "columns": ["price"]},
    {"name": "ship", "ordering": ["ship_ts"], "columns": ["road"], "null_mode": "keep"},
]
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("shop_ts", pa.int64()),
    pa.field("price", pa.float64()),
    pa.field("ship_ts", pa.int64()),
    pa.field("road", pa.string()),
    pa.field("_hoodie_is_deleted", pa.bool_()),
]
NON_BLOCKING = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


def make(path: Path, table_type: str) -> LakehouseTable:
    return create_table(
        path / "orders",
        name="orders",
        schema=pa.schema(_COLUMNS),
        record_key=["id"],
        table_type=table_type,
        options={"hoodie.multistream.groups": json.dumps(GROUPS)},
    )


def write(table: LakehouseTable, *rows: dict[str, Any]) -> dict[str, Any]:
    """What the commit of these rows tells."""
    fields = [one for one in _COLUMNS if any(one.name in row for row in rows)]
    batch = pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
    logs = table.table.config.is_merge_on_read
    outcome = table.write(batch, options=NON_BLOCKING if logs else {})
    assert isinstance(outcome, Committed), outcome
    return told(table, outcome.instant)


def told(table: LakehouseTable, instant: str) -> dict[str, Any]:
    done = table.table.timeline().find(instant)
    assert done is not None
    content = read_commit_metadata(table.table.storage.read(table.table.layout.path(done)))
    facts: dict[str, Any] = json.loads(content.extra_metadata.get(GROUP_FACTS_KEY, "{}"))
    return facts


def test_a_write_tells_what_it_brings_to_each_group(tmp_path: Path) -> None:
    table = make(tmp_path, "MERGE_ON_READ")

    facts = write(
        table,
        {"id": "a", "shop_ts": 20, "price": 1.0, "ship_ts": 7, "road": None},
        {"id": "b", "shop_ts": 0, "price": None, "ship_ts": None, "road": "x"},
        {"id": "c", "shop_ts": 30, "price": 2.0, "ship_ts": None, "_hoodie_is_deleted": True},
    )

    assert facts["shop"] == {"rows": 3, "deletes": 1, "least": 0, "greatest": 30}
    assert facts["ship"] == {"rows": 1, "nulls": 1, "skipped": 2, "least": 7, "greatest": 7}


def test_a_write_of_one_stream_tells_nothing_of_the_others(tmp_path: Path) -> None:
    table = make(tmp_path, "MERGE_ON_READ")

    assert set(write(table, {"id": "a", "ship_ts": 7, "road": "x"})) == {"ship"}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_late_rows_ties_and_tombstones_are_told_where_they_are_merged(
    tmp_path: Path, table_type: str
) -> None:
    table = make(tmp_path, table_type)
    facts = [
        write(table, {"id": "a", "shop_ts": 20, "price": 1.0}, {"id": "b", "shop_ts": 5}),
        write(table, {"id": "a", "shop_ts": 10, "price": 9.0}),
        write(table, {"id": "b", "shop_ts": 5, "price": 2.0}),
        write(table, {"id": "b", "shop_ts": 6, "_hoodie_is_deleted": True}),
    ]
    if table_type == "MERGE_ON_READ":
        assert not any("late" in one["shop"] or "tied" in one["shop"] for one in facts)
        facts.append(told(table, table.compact().instant or ""))

    shop = added(facts[1:])["shop"]
    assert (shop["late"], shop["late_key"]) == (1, "a")
    assert facts[-1]["shop"]["tombstones"] == 1
    assert table.read().to_pydict()["price"] == [1.0]
