"""Columns in no group beside `delete=row`: without an ordering field of the table they have no age,
so every delete would be younger than they are, for ever. They are refused at every way in. So is a
batch that brings no column of its stream's group, or keys only.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers import run_sql
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput, TableChanged
from workers.schema.alter import AddColumn

SHOWN = {"name": "shown", "ordering": ["shown_at"], "columns": ["site"], "delete": "row"}
CLICK = {"name": "click", "ordering": ["clicked_at"], "columns": ["x"]}
GROUPED = schema_of(
    id=pa.string(), shown_at=pa.int64(), site=pa.string(), clicked_at=pa.int64(), x=pa.int32()
)
DIRECT = {"hoodie.write.markers.type": "direct"}
MERGING = {
    "hoodie.write.concurrency.schema.conflict.resolution.strategy": "evolvability",
}
WHY = "columns in no group have none"


def made(
    tables: ScenarioTables,
    table_type: str = "MERGE_ON_READ",
    *,
    ordering: tuple[str, ...] = (),
    shown: dict[str, Any] = SHOWN,
) -> ScenarioTable:
    more = [pa.field(name, pa.int64()) for name in ordering]
    return tables(
        table_type=table_type,
        schema=pa.schema([*GROUPED, *more]),
        ordering=ordering,
        options={
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.multistream.groups": json.dumps([shown, CLICK]),
        },
    )


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def deleting(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    """A key that a delete of the row took away, and one that lives."""
    table = made(tables, request.param)
    table.lakehouse.write(
        table.batch([{"id": "k", "shown_at": 10, "site": "s"}, {"id": "l", "shown_at": 10}]),
        options=DIRECT,
    )
    gone = table.batch([{"id": "k", "shown_at": 20, "_hoodie_is_deleted": True}])
    table.lakehouse.write(gone, options=DIRECT)
    return table


def test_a_batch_with_a_new_column_is_refused_before_anything_is_written(
    deleting: ScenarioTable,
) -> None:
    files, columns = deleting.data_files(), deleting.schema_columns()

    with pytest.raises(InvalidInput, match=WHY) as refused:
        deleting.lakehouse.write(deleting.batch([{"id": "k", "note": "n"}]), options=DIRECT)

    assert refused.value.values["columns"] == ("note",)
    assert (deleting.data_files(), deleting.schema_columns()) == (files, columns)


def test_an_alter_that_adds_a_column_is_refused(deleting: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match=WHY):
        deleting.lakehouse.alter(AddColumn("note", pa.string()), options=DIRECT)

    assert "note" not in deleting.schema_columns()


def test_with_an_ordering_field_columns_of_no_group_have_an_age_and_may_come_later(
    tables: ScenarioTables,
) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, ordering=("ts",))
        gone = table.batch([{"id": "k", "shown_at": 20, "_hoodie_is_deleted": True}])
        table.lakehouse.write(gone, options=DIRECT)

        table.lakehouse.write(
            table.batch([{"id": "k", "ts": 21, "note": "n"}, {"id": "l", "ts": 1, "note": "m"}]),
            options=DIRECT,
        )

        assert table.rows("id", "note") == [{"id": "k", "note": "n"}, {"id": "l", "note": "m"}]


def test_a_group_that_deletes_rows_is_not_added_beside_a_writer_that_brings_such_a_column(
    tables: ScenarioTables,
) -> None:
    table = made(tables, shown=SHOWN | {"delete": "group"})
    open_writer = table.writer("open", mode="non-blocking", options=MERGING)
    open_writer.upsert({"id": "k", "note": "n"})
    bought = {"name": "bought", "ordering": ["bought_at"], "columns": ["amount"], "delete": "row"}
    types: dict[str, pa.DataType] = {"bought_at": pa.int64(), "amount": pa.float64()}
    table.lakehouse.add_group(bought, types, options=DIRECT)

    with pytest.raises(InvalidInput, match=WHY):
        open_writer.commit()

    assert "note" not in table.schema_columns()
    assert table.rows() == []


def test_a_writer_that_brings_a_column_of_a_group_that_was_added_meanwhile_is_refused(
    tables: ScenarioTables,
) -> None:
    table = made(tables, shown=SHOWN | {"delete": "group"})
    open_writer = table.writer("open", mode="non-blocking", options=MERGING)
    open_writer.upsert({"id": "k", "amount": 1.5})
    bought = {"name": "bought", "ordering": ["bought_at"], "columns": ["amount"]}
    types: dict[str, pa.DataType] = {"bought_at": pa.int64(), "amount": pa.float64()}
    table.lakehouse.add_group(bought, types, options=DIRECT)

    with pytest.raises(TableChanged, match="joined a group"):
        open_writer.commit()

    assert table.rows() == []


def test_a_writer_that_was_open_when_a_group_was_added_still_commits_its_own(
    tables: ScenarioTables,
) -> None:
    table = made(tables, shown=SHOWN | {"delete": "group"})
    open_writer = table.writer("open", mode="non-blocking").upsert(
        {"id": "k", "shown_at": 1, "site": "s"}
    )
    bought = {"name": "bought", "ordering": ["bought_at"], "columns": ["amount"], "delete": "row"}
    types: dict[str, pa.DataType] = {"bought_at": pa.int64(), "amount": pa.float64()}
    table.lakehouse.add_group(bought, types, options=DIRECT)

    open_writer.wins()

    assert table.rows("id", "site") == [{"id": "k", "site": "s"}]


def test_stream_that_brings_columns_of_another_group_only_is_refused(
    tables: ScenarioTables,
) -> None:
    ads = made(tables)
    batch = pa.Table.from_pylist([{"id": "k", "shown_at": 1, "site": "s"}])
    before = ads.timeline()

    with pytest.raises(InvalidInput, match="no column of its stream's group"):
        ads.lakehouse.write(batch, stream="click", options=DIRECT)

    assert ads.timeline() == before
    assert isinstance(ads.lakehouse.write(batch, stream="shown", options=DIRECT), Committed)


@pytest.mark.parametrize("stream", [None, "shown"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_batch_of_keys_only_is_refused_before_anything_is_written(
    tables: ScenarioTables, table_type: str, stream: str | None
) -> None:
    ads = made(tables, table_type)
    before = ads.timeline()

    with pytest.raises(InvalidInput, match="keys only"):
        ads.lakehouse.write(pa.table({"id": ["k"]}), stream=stream, options=DIRECT)
    with pytest.raises(InvalidInput, match="keys only"):
        run_sql("INSERT INTO ads (id) VALUES ('k')", tables={"ads": ads.lakehouse})

    assert (ads.timeline(), ads.rows()) == (before, [])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_outcome_says_which_rows_of_a_stream_say_nothing(
    tables: ScenarioTables, table_type: str
) -> None:
    ads = made(tables, table_type)
    ages = pa.array([None, 1], pa.int64())

    alone = ads.lakehouse.write(pa.table({"id": ["k", "l"], "clicked_at": ages, "x": [1, 2]}))
    columns = {"shown_at": [1, 1], "site": ["a", "b"], "clicked_at": ages, "x": [3, 3]}
    both = ads.lakehouse.write(pa.table({"id": ["k", "l"], **columns}))

    assert isinstance(alone, Committed)
    assert isinstance(both, Committed)
    assert alone.warnings[0].endswith("are not shown: groups=click rows=1")
    assert both.warnings == ()
    assert ads.rows("id", "x") == [{"id": "k", "x": None}, {"id": "l", "x": 3}]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_outcome_says_that_no_row_says_anything(
    tables: ScenarioTables, table_type: str
) -> None:
    ads = made(tables, table_type)
    silent = {"id": ["k", "l"], "shown_at": pa.nulls(2, pa.int64()), "site": ["a", "b"]}

    outcome = ads.lakehouse.write(pa.table(silent), stream="shown", options=DIRECT)

    assert isinstance(outcome, Committed)
    assert (outcome.rows, ads.rows()) == (0, [])
    assert outcome.warnings[0].endswith("are not shown: groups=shown rows=2")
