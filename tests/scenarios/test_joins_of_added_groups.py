"""A group that is added to a table whose join hides rows: no row vanishes, now or in the past."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from workers import create_table, open_table, run_sql
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.properties import load_properties
from workers.lakehouse import LakehouseTable
from workers.options.group_keys import JOIN_KEY
from workers.read.join_sample import sample_join
from workers.schema.alter import DropColumn, RenameColumn

SCHEMA = schema_of(
    id=pa.string(), shown_at=pa.int64(), site=pa.string(), clicked_at=pa.int64(), x=pa.int64()
)
GROUPS = [
    {"name": "shown", "ordering": ["shown_at"], "columns": ["site"]},
    {"name": "click", "ordering": ["clicked_at"], "columns": ["x"]},
]
BOUGHT = {
    "name": "bought",
    "ordering": ["bought_at"],
    "columns": ["amount"],
    "defaults": {"amount": 7},
}
TYPES: dict[str, pa.DataType] = {"bought_at": pa.int64(), "amount": pa.int64()}
DIRECT = {"hoodie.write.markers.type": "direct"}
ASKED = {
    "inner": "inner:shown,click",
    "inner:click": "inner:click",
    "right:shown": "inner:click",
    "left:click": "left:click",
    "full": "full",
}
JOINS = pytest.mark.parametrize("join", ASKED)
TABLE_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def made(where: Path, join: str, table_type: str = "MERGE_ON_READ") -> LakehouseTable:
    return create_table(
        where / "ads",
        name="ads",
        schema=SCHEMA,
        record_key=["id"],
        table_type=table_type,
        options={
            "hoodie.multistream.groups": json.dumps(GROUPS),
            "hoodie.multistream.join": join,
            "hoodie.bucket.index.num.buckets": "1",
        },
    )


def written(table: LakehouseTable, **columns: list[Any]) -> str:
    outcome = table.write(pa.table(columns), options=DIRECT)
    assert isinstance(outcome, Committed)
    return outcome.completed_at


def filled(table: LakehouseTable) -> list[str]:
    """One row of both groups, one of each alone. Completion times."""
    return [
        written(table, id=["both", "shown"], shown_at=[1, 1], site=["a", "b"]),
        written(table, id=["both", "click"], clicked_at=[2, 2], x=[5, 6]),
        written(table, id=["both"], clicked_at=[3], x=[9]),
    ]


def past(table: LakehouseTable, times: list[str]) -> dict[str, list[dict[str, Any]]]:
    """What every read up to the last of these times shows."""
    reads = {
        **{f"as of {one}": table.read(as_of=one) for one in times},
        "increment": table.read(since=times[0], until=times[2]),
        "increment to the end": table.read(since=times[1], until=times[2]),
        "changes": table.read(query="cdc", since=times[0], until=times[2]),
        "unmatched": table.read(as_of=times[2], shows_unmatched=True),
    }
    return {name: sorted(rows.to_pylist(), key=repr) for name, rows in reads.items()}


def now(table: LakehouseTable) -> dict[str, Any]:
    """What every read of the present shows, of the columns that were there before."""
    columns = SCHEMA.names
    answer = run_sql(f"SELECT {', '.join(columns)} FROM ads", tables={"ads": table})
    reads = {
        "snapshot": table.read(columns=columns),
        "sql": answer,
        "read optimized": table.read(columns=columns, query="read_optimized"),
    }
    shown = {name: sorted(rows.to_pylist(), key=repr) for name, rows in reads.items()}
    return shown | {"hidden": sample_join(table.table).hidden}


@pytest.mark.sampled(every=4)
@TABLE_TYPES
@JOINS
def test_a_group_that_is_added_hides_no_row_and_changes_no_read_of_the_past(
    tmp_path: Path, table_type: str, join: str
) -> None:
    table = made(tmp_path, join, table_type)
    times = filled(table)
    if table_type == "MERGE_ON_READ":
        table.compact()
    before, shown = past(table, times), now(table)
    assert shown["snapshot"], "the join shows some rows"

    outcome = table.add_group(BOUGHT, TYPES, options=DIRECT)

    assert isinstance(outcome, Committed)
    again = open_table(table.location)
    assert past(again, times) == past(table, times) == before
    assert now(again) == now(table) == shown
    changes = again.read(query="cdc", since=times[2]).to_pylist()
    assert "d" not in [one["op"] for one in changes]
    assert sorted(one["id"] for one in again.read(since=times[2]).to_pylist()) in (
        [],
        sorted(one["id"] for one in shown["snapshot"]),
    )


@TABLE_TYPES
def test_rows_of_an_added_group_are_shown_when_they_have_the_groups_of_before(
    tmp_path: Path, table_type: str
) -> None:
    table = made(tmp_path, "inner", table_type)
    filled(table)
    table.add_group(BOUGHT, TYPES, options=DIRECT)

    written(table, id=["both", "shown", "new"], bought_at=[4, 4, 4], amount=[1, 2, 3])
    if table_type == "MERGE_ON_READ":
        table.compact()

    [row] = table.read().to_pylist()
    assert (row["id"], row["x"], row["amount"]) == ("both", 9, 1)
    assert sample_join(table.table).hidden == 3


@JOINS
def test_a_join_is_stored_with_the_groups_that_it_asks_for(tmp_path: Path, join: str) -> None:
    table = made(tmp_path, join)

    assert load_properties(table.table.storage)[JOIN_KEY] == ASKED[join]


@pytest.mark.parametrize("join", ["inner", "right:shown"])
def test_a_table_whose_join_names_no_groups_keeps_those_that_it_had(
    tmp_path: Path, join: str
) -> None:
    """Its properties are from before the names were stored."""
    table = made(tmp_path, join)
    properties = Path(table.location, ".hoodie", "hoodie.properties")
    kept = properties.read_text()
    rest = [
        line for line in kept.splitlines() if not line.startswith((JOIN_KEY, "hoodie.table.ch"))
    ]
    properties.write_text("\n".join([*rest, f"{JOIN_KEY}={join}"]))
    table = open_table(table.location)
    times = filled(table)
    before, shown = past(table, times), now(table)

    table.add_group(BOUGHT, TYPES, options=DIRECT)
    second = {"name": "sent", "ordering": ["sent_at"], "columns": ["by"]}
    table.add_group(second, {"sent_at": pa.int64(), "by": pa.string()}, options=DIRECT)

    assert load_properties(table.table.storage)[JOIN_KEY] == ASKED[join]
    again = open_table(table.location)
    assert (past(again, times), now(again)) == (before, shown)


def test_a_group_that_the_join_asks_for_is_neither_dropped_nor_renamed(tmp_path: Path) -> None:
    table = made(tmp_path, "inner")
    times = filled(table)
    table.add_group(BOUGHT, TYPES, options=DIRECT)
    before, shown = past(table, times), now(table)

    for change in (DropColumn("x"), RenameColumn("x", "y"), DropColumn("clicked_at")):
        with pytest.raises(InvalidInput):
            table.alter(change, options=DIRECT)
    for column in TYPES:
        with pytest.raises(InvalidInput):
            table.alter(DropColumn(column), options=DIRECT)

    assert (past(table, times), now(table)) == (before, shown)
