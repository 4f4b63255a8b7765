"""A table says in which mode its writers write, so that nobody has to at every write."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.foreign_properties import change_as_hudi
from tests.support.scenario_table import ScenarioTables, schema_of
from workers.concurrency.outcome import CommitOutcome, Committed
from workers.errors import InvalidInput
from workers.files.properties import load_properties
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode
from workers.table.schema_history import read_instant
from workers.timeline.metadata import PROCESS_KEY
from workers.write.context import WriteContext
from workers.write.local import write_rows_from
from workers.write.request import WriteRequest

DIRECT = {"hoodie.write.markers.type": "direct"}
SCHEMA = schema_of(
    id=pa.string(), shown_at=pa.int64(), site=pa.string(), clicked_at=pa.int64(), x=pa.int64()
)
GROUPS = [
    {"name": "shown", "ordering": ["shown_at"], "columns": ["site"]},
    {"name": "click", "ordering": ["clicked_at"], "columns": ["x"]},
]
SHOWN = pa.table({"id": ["k"], "shown_at": [1], "site": ["s"]})
CLICK = pa.table({"id": ["k"], "clicked_at": [1], "x": [7]})


def ads(
    tables: ScenarioTables, table_type: str = "MERGE_ON_READ", **options: str
) -> LakehouseTable:
    made = tables(
        schema=SCHEMA,
        ordering=[],
        table_type=table_type,
        options={"hoodie.multistream.groups": json.dumps(GROUPS), **options},
    )
    made.excuse_referee("other readers do not merge column groups")
    return made.lakehouse


def test_streams_of_disjoint_groups_commit_side_by_side_without_being_asked_to(
    tables: ScenarioTables,
) -> None:
    table = ads(tables)
    faster: list[CommitOutcome] = []

    def rows_late(_: WriteContext) -> pa.Table:
        faster.append(table.write(CLICK, stream="click", options=DIRECT))
        return SHOWN

    request = WriteRequest("upsert", "shown")
    typed = write_options(DIRECT, table.table.config.get_mode("upsert"))
    slower = write_rows_from(table.table, SHOWN.schema, request, typed, rows_late)

    assert [type(outcome) for outcome in (*faster, slower)] == [Committed, Committed]
    modes = [
        json.loads(read_instant(table.table, instant).extra_metadata[PROCESS_KEY])["mode"]
        for instant in table.timeline()[1:]
    ]
    assert modes == ["NON_BLOCKING_CONCURRENCY_CONTROL"] * 2
    assert load_properties(table.table.storage)[MODE_KEY] == "NON_BLOCKING_CONCURRENCY_CONTROL"


@pytest.mark.parametrize(
    ("table_type", "mode"),
    [
        ("MERGE_ON_READ", ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL),
        ("COPY_ON_WRITE", ConcurrencyMode.SINGLE_WRITER),
    ],
)
def test_groups_of_a_table_from_before_it_kept_its_mode_write_beside_each_other(
    tables: ScenarioTables, table_type: str, mode: ConcurrencyMode
) -> None:
    location = ads(tables, table_type).table.storage.location

    change_as_hudi(Path(location.removeprefix("file://")), {MODE_KEY: ""})

    assert MODE_KEY not in load_properties(open_table(location).table.storage)
    assert open_table(location).table.config.get_mode("upsert") is mode


def test_what_cannot_append_is_optimistic_beside_them(tables: ScenarioTables) -> None:
    table = ads(tables)
    table.write(SHOWN, stream="shown", options=DIRECT)

    table.delete(predicate="site = 's'", options=DIRECT)

    [commit] = table.timeline()[-1:]
    assert table.table.config.get_mode("insert_overwrite") is (
        ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL
    )
    assert commit.completed_at is not None
    assert table.read().num_rows == 0


def test_a_mode_that_a_write_names_stands_above_the_tables(tables: ScenarioTables) -> None:
    table = ads(tables)
    optimistic = {MODE_KEY: "OPTIMISTIC_CONCURRENCY_CONTROL"}

    options = write_options(DIRECT | optimistic, table.table.config.get_mode("upsert"))

    assert options.mode is ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL


def test_the_mode_of_a_plain_table_is_kept_where_it_was_asked_for(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string()})
    optimistic = {MODE_KEY: "OPTIMISTIC_CONCURRENCY_CONTROL"}
    create_table(tmp_path / "plain", name="plain", schema=schema, record_key=["id"])
    create_table(
        tmp_path / "many", name="many", schema=schema, record_key=["id"], options=optimistic
    )

    plain, many = (open_table(tmp_path / name).table.config for name in ("plain", "many"))

    assert plain.get_mode("upsert") is ConcurrencyMode.SINGLE_WRITER
    assert many.get_mode("upsert") is ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "needs a MERGE_ON_READ table"),
        ({"hoodie.index.type": "SIMPLE"}, "needs a"),
        ({MODE_KEY: "HOPEFUL"}, "not one of those allowed"),
    ],
)
def test_a_mode_that_no_writer_could_have_is_refused_with_the_table(
    tmp_path: Path, options: dict[str, str], why: str
) -> None:
    table_options = {MODE_KEY: "NON_BLOCKING_CONCURRENCY_CONTROL", **options}

    with pytest.raises(InvalidInput, match=why):
        create_table(
            tmp_path / "t",
            name="t",
            schema=pa.schema({"id": pa.string()}),
            record_key=["id"],
            options=table_options,
        )

    assert not (tmp_path / "t").exists()


def test_a_stream_that_the_table_does_not_have_is_refused(tables: ScenarioTables) -> None:
    table = ads(tables)

    with pytest.raises(InvalidInput, match="no such stream") as refused:
        table.write(CLICK, stream="bogus", options=DIRECT)

    assert "click" in str(refused.value)
    assert len(table.timeline()) == 1


def test_defaults_of_a_group_that_joins_show_in_every_kind_of_read(tables: ScenarioTables) -> None:
    table = ads(tables)
    table.write(SHOWN, stream="shown", options=DIRECT)
    before = table.timeline()[-1].completed_at
    bought = {
        "name": "bought",
        "ordering": ["bought_at"],
        "columns": ["amount"],
        "defaults": {"amount": 0},
    }

    table.add_group(bought, {"bought_at": pa.int64(), "amount": pa.int64()}, options=DIRECT)

    [row] = table.read().to_pylist()
    assert row["amount"] == 0
    assert table.read(query="incremental", since=before).to_pylist() == [row]
    [change] = table.read(query="cdc", since=before).to_pylist()
    assert (change["op"], change["after"]) == ("u", row)
    assert change["before"] == row | {"amount": None}
    [insert, update] = table.read(query="cdc", since="earliest").to_pylist()
    assert (insert["op"], insert["after"]["amount"], update["op"]) == ("i", None, "u")


def test_a_group_that_joins_without_defaults_changes_no_row(tables: ScenarioTables) -> None:
    table = ads(tables)
    table.write(SHOWN, stream="shown", options=DIRECT)
    before = table.timeline()[-1].completed_at
    bought = {"name": "bought", "ordering": ["bought_at"], "columns": ["amount"]}

    table.add_group(bought, {"bought_at": pa.int64(), "amount": pa.int64()}, options=DIRECT)

    assert table.read(query="incremental", since=before).num_rows == 0
    assert table.read(query="cdc", since=before).num_rows == 0
