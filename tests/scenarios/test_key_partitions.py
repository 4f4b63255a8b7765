"""A key of column groups comes under another partition than the one where it stands: it made two
rows, each with half of the values, and nobody was told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.foreign_properties import change_as_hudi
from tests.support.keyed_streams import (
    CLICK,
    MARK,
    SCHEMA,
    SHOWN,
    UPDATE,
    click,
    gone,
    made,
    named,
    shown,
    wide,
    write,
)
from tests.support.referee import referee_rows
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import create_table, open_table
from workers.read.snapshot import read_snapshot
from workers.timeline.metadata import MOVED_ROWS_KEY

pytestmark = pytest.mark.sampled(every=2)

DIRECT = {"hoodie.write.markers.type": "direct"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
every_type = pytest.mark.parametrize("table_type", KINDS)
JOINED = wide("k", "tue", shown_at=5, price=50, clicked_at=7, x=70)


@pytest.fixture(params=KINDS)
def rejecting(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return made(tables, request.param)


@pytest.fixture(params=KINDS)
def moving(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return made(tables, request.param, "move")


def compact(table: ScenarioTable) -> None:
    if table.table.config.is_merge_on_read:
        run(table, "compaction")


def stored(table: ScenarioTable) -> list[tuple[str, str, str]]:
    """Key, partition by the path and by the column, of what is stored."""
    rows = read_snapshot(table.table, with_meta_columns=True)
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "day"]
    stored_keys = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
    return sorted((str(key), str(path), str(day)) for key, path, day in stored_keys)


@pytest.mark.parametrize("is_compacted", [True, False], ids=["compacted", "in logs"])
def test_a_key_under_another_partition_is_refused_with_its_names_and_without_a_trace(
    rejecting: ScenarioTable, is_compacted: bool
) -> None:
    write(rejecting, shown("k", "mon", 5), shown("other", "tue", 5))
    if is_compacted:
        compact(rejecting)
    before = rejecting.data_files()

    with pytest.raises(InvalidInput) as refused:
        write(rejecting, click("k", "tue", 7), click("new", "tue", 7))

    assert refused.value.values == {
        "key": "k",
        "stands_in": "mon",
        "brought_for": "tue",
        "keys": 1,
    }
    assert f"{UPDATE}=move" in str(refused.value)
    assert rejecting.data_files() == before
    assert [one["id"] for one in rejecting.rows()] == ["k", "other"]


def test_what_a_stream_brings_for_its_own_partition_is_taken(rejecting: ScenarioTable) -> None:
    write(rejecting, shown("k", "tue", 5, 50), shown("m", "mon", 5))

    write(rejecting, click("k", "tue", 7, 70), click("n", "mon", 7), stream="click")

    assert rejecting.rows()[0] == JOINED
    assert [(one["id"], one["day"]) for one in rejecting.rows()] == [
        ("k", "tue"),
        ("m", "mon"),
        ("n", "mon"),
    ]


@pytest.mark.parametrize("update", ["reject", "move"])
@every_type
def test_a_batch_that_brings_a_key_for_two_partitions_is_refused(
    tables: ScenarioTables, table_type: str, update: str
) -> None:
    table = made(tables, table_type, update)

    with pytest.raises(InvalidInput, match="the batch brings a key for several") as refused:
        write(table, shown("k", "mon", 5), shown("k", "tue", 5), shown("m", "tue", 5))

    assert refused.value.values == {"key": "k", "partitions": ["mon", "tue"], "keys": 1}
    assert table.rows() == []


def test_a_row_moves_whole_in_one_commit(moving: ScenarioTable) -> None:
    write(moving, shown("k", "mon", 5, 50), shown("m", "mon", 1))
    begun = len(moving.instants())

    write(moving, click("k", "tue", 7, 70), click("n", "tue", 1))

    assert moving.rows()[0] == JOINED
    assert stored(moving)[0] == ("k", "tue", "tue")
    assert len(moving.instants()) == begun + 1
    extra_metadata = moving.metadata(moving.instants()[-1].requested_at).extra_metadata
    assert (extra_metadata[MOVED_ROWS_KEY], extra_metadata["sluice.rows"]) == ("1", "2")
    compact(moving)
    assert moving.rows()[0] == JOINED
    assert [one[:2] for one in stored(moving)] == [("k", "tue"), ("m", "mon"), ("n", "tue")]


def test_hudi_rs_sees_the_row_where_it_moved_and_nowhere_else(moving: ScenarioTable) -> None:
    write(moving, shown("k", "mon", 5, 50), shown("m", "mon", 1))
    compact(moving)
    write(moving, click("k", "tue", 7, 70))
    compact(moving)

    assert moving.rows()[0] == JOINED
    assert sorted(row["id"] for row in referee_rows(moving.location, ["id"])) == ["k", "m"]
    (seen,) = (row for row in referee_rows(moving.location, SCHEMA.names) if row["id"] == "k")
    assert seen == JOINED


def test_a_row_moves_there_and_back_and_keeps_what_every_stream_said(
    moving: ScenarioTable,
) -> None:
    write(moving, shown("k", "mon", 5, 50))
    for at, day in enumerate(["tue", "wed", "mon", "tue"], start=10):
        write(moving, click("k", day, at, at))
        if at % 2:
            compact(moving)

    assert moving.rows() == [wide("k", "tue", shown_at=5, price=50, clicked_at=13, x=13)]


def test_what_is_late_for_all_that_it_says_moves_nothing(moving: ScenarioTable) -> None:
    write(moving, shown("k", "tue", 5, 50), click("k", "tue", 7, 70))

    write(moving, shown("k", "mon", 4, 40))
    write(moving, {**shown("k", "mon", None), **click("k", "mon", 6, 60)})
    write(moving, {**shown("k", "mon", None), **click("k", "mon", None)})

    assert moving.rows() == [JOINED]
    assert stored(moving) == [("k", "tue", "tue")]


def test_a_row_that_says_nothing_counts_by_its_key(rejecting: ScenarioTable) -> None:
    write(rejecting, shown("k", "mon", 5))

    with pytest.raises(InvalidInput, match="stands in another partition"):
        write(rejecting, click("k", "tue", None, None))
    with pytest.raises(InvalidInput, match="stands_in=mon brought_for=__HIVE_DEFAULT_PARTITION__"):
        write(rejecting, click("k", None, 7))


def test_a_row_moves_into_the_partition_of_those_without_value(moving: ScenarioTable) -> None:
    write(moving, shown("k", "mon", 5, 50))

    write(moving, click("k", None, 7, 70))

    assert moving.rows() == [JOINED | {"day": None}]


def test_marked_deletes_find_the_row_where_it_stands(moving: ScenarioTable) -> None:
    write(moving, shown("k", "tue", 5, 50), click("k", "tue", 7, 70))

    write(moving, gone(shown("k", "mon", 9)))

    assert moving.rows() == [JOINED | {"shown_at": 9, "price": None}]
    write(moving, gone(click("k", "wed", 9)))
    assert moving.rows() == []


def test_a_marked_delete_for_another_partition_is_refused(rejecting: ScenarioTable) -> None:
    write(rejecting, shown("k", "mon", 5))

    with pytest.raises(InvalidInput, match="key=k stands_in=mon brought_for=tue"):
        write(rejecting, gone(shown("k", "tue", 9)))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("update", ["reject", "move"])
@pytest.mark.parametrize("is_compacted", [True, False], ids=["compacted", "as written"])
@every_type
def test_what_a_delete_took_away_stays_away_in_every_partition(
    tables: ScenarioTables, table_type: str, update: str, is_compacted: bool
) -> None:
    table = made(tables, table_type, update)
    write(table, shown("k", "mon", 5))
    write(table, gone(shown("k", "mon", 20)))
    if is_compacted:
        compact(table)

    write(table, shown("k", "tue", 15, 150), click("k", "tue", 1, 10))
    write(table, shown("k", "tue", 19, 190))

    assert table.rows() == [wide("k", "tue", shown_at=20, clicked_at=1, x=10)]
    compact(table)
    write(table, shown("k", "tue", 21, 210))
    expected = wide("k", "tue", shown_at=21, price=210, clicked_at=1, x=10)
    assert table.rows() == [expected]
    assert stored(table) == [("k", "tue", "tue")]


def delete(table: ScenarioTable, *keys: tuple[str, str]) -> Any:
    return table.lakehouse.delete(named(*keys), options=DIRECT)


def test_a_delete_by_key_that_names_another_partition_is_refused(rejecting: ScenarioTable) -> None:
    write(rejecting, shown("k", "mon", 5), shown("m", "tue", 5))

    with pytest.raises(InvalidInput, match="key=k stands_in=mon brought_for=tue"):
        delete(rejecting, ("k", "tue"))
    assert isinstance(delete(rejecting, ("k", "mon"), ("nowhere", "tue")), Committed)

    assert [one["id"] for one in rejecting.rows()] == ["m"]
    write(rejecting, shown("k", "tue", 1))
    assert stored(rejecting) == [("k", "tue", "tue"), ("m", "tue", "tue")]


def test_where_rows_move_a_delete_by_key_finds_them(moving: ScenarioTable) -> None:
    write(moving, shown("k", "mon", 5), shown("m", "tue", 5))

    delete(moving, ("k", "tue"), ("k", "wed"), ("nowhere", "tue"))

    assert [one["id"] for one in moving.rows()] == ["m"]


def test_sums_are_moved_and_not_counted_twice(tables: ScenarioTables) -> None:
    sums = SHOWN | {"aggregates": {"price": "sum"}}
    table = made(tables, "MERGE_ON_READ", "move", sums, CLICK)
    write(table, shown("k", "mon", 1, 10), shown("k", "mon", 2, 20))

    for at, day in enumerate(["tue", "mon", "tue"], start=3):
        write(table, shown("k", day, at, 100))

    assert [one["price"] for one in table.rows()] == [330]


def test_ages_of_columns_go_along(tables: ScenarioTables) -> None:
    by_column = {"name": "pair", "ordering": ["shown_at"], "columns": ["price", "x"]}
    table = made(
        tables,
        "MERGE_ON_READ",
        "move",
        by_column | {"granularity": "column"},
        schema=SCHEMA.remove(SCHEMA.get_field_index("clicked_at")),
    )
    write(table, {"id": "k", "day": "mon", "shown_at": 5, "price": 50})
    write(table, {"id": "k", "day": "tue", "shown_at": 9, "x": 9})

    write(table, {"id": "k", "day": "tue", "shown_at": 4, "price": 40, "x": 4})
    write(table, {"id": "k", "day": "tue", "shown_at": 6, "price": 60, "x": 6})

    expected = {"id": "k", "day": "tue", "shown_at": 9, "price": 60, "x": 9}
    assert table.rows() == [expected]


def test_a_window_has_a_row_that_moved_and_the_changes_have_one_update(
    moving: ScenarioTable,
) -> None:
    write(moving, shown("k", "mon", 5, 50), shown("m", "mon", 1))
    since = moving.instants()[-1].completed_at

    write(moving, click("k", "tue", 7, 70))

    window = moving.lakehouse.read(query="incremental", since=since)
    assert [(one["id"], one["day"]) for one in window.select(["id", "day"]).to_pylist()] == [
        ("k", "tue")
    ]
    changes = moving.lakehouse.read(query="cdc", since=since).to_pylist()
    (change,) = changes
    assert (change["op"], change["before"]["day"], change["after"]) == ("u", "mon", JOINED)


@pytest.mark.parametrize("update", ["reject", "move"])
def test_an_overwrite_of_a_partition_is_refused_for_keys_of_those_that_stay(
    tables: ScenarioTables, update: str
) -> None:
    table = made(tables, "MERGE_ON_READ", update)
    write(table, shown("k", "mon", 5), shown("m", "tue", 5))
    batch = table.batch([shown("k", "tue", 6)])

    with pytest.raises(InvalidInput, match="key=k stands_in=mon brought_for=tue"):
        table.lakehouse.write(batch, "insert_overwrite", options=DIRECT)
    both = table.batch([shown("k", "tue", 6), shown("n", "mon", 6)])
    table.lakehouse.write(both, "insert_overwrite", options=DIRECT)
    assert [one[:2] for one in stored(table)] == [("k", "tue"), ("n", "mon")]
    table.lakehouse.write(batch, "insert_overwrite_table", options=DIRECT)
    assert [one[:2] for one in stored(table)] == [("k", "tue")]


def test_allowed_a_key_is_a_row_of_each_partition(tables: ScenarioTables) -> None:
    table = made(tables, "MERGE_ON_READ", "allow")

    write(table, shown("k", "mon", 5), shown("k", "tue", 6))

    assert stored(table) == [("k", "mon", "mon"), ("k", "tue", "tue")]


def test_rows_that_were_doubled_before_are_written_where_they_stand_and_deleted_one_by_one(
    tables: ScenarioTables,
) -> None:
    table = made(tables, "MERGE_ON_READ", "allow")
    write(table, shown("k", "mon", 5), shown("k", "tue", 6))
    change_as_hudi(table.location, {UPDATE: "reject"})
    reopened = open_table(table.location)

    reopened.write(table.batch([click("k", "tue", 7)]), options=DIRECT)
    reopened.delete(named(("k", "mon")), options=DIRECT)

    assert stored(table) == [("k", "tue", "tue")]


def test_a_key_that_holds_the_partition_is_not_looked_for(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "table",
        name="ads",
        schema=SCHEMA,
        record_key=["id", "day"],
        partition_by=["day"],
        options={"hoodie.payload.ordering.field": "shown_at:price;clicked_at:x"},
    )

    assert not table.table.config.keeps_keys_single
    batch = {"id": ["k", "k"], "day": ["mon", "tue"], "shown_at": [1, 2], "price": [1, 2]}
    assert isinstance(table.write(pa.table(batch), options=DIRECT), Committed)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({UPDATE: "merge"}, "value is not one of those allowed"),
        ({UPDATE: "move", "hoodie.multistream.groups": ""}, "only a table with column groups"),
    ],
)
def test_the_option_is_refused_where_it_means_nothing(
    tables: ScenarioTables, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        made(tables, "MERGE_ON_READ", options=options)


def test_rows_with_the_mark_as_a_column_move_too(tables: ScenarioTables) -> None:
    table = made(tables, "MERGE_ON_READ", "move", schema=SCHEMA.append(pa.field(MARK, pa.bool_())))
    write(table, shown("k", "mon", 5, 50))

    write(table, {**click("k", "tue", 7, 70), MARK: False})

    assert [{n: one[n] for n in SCHEMA.names} for one in table.rows()] == [JOINED]
