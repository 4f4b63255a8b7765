"""Streams with a clock each write their own columns of one wide table; the join happens there."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.clocks import ManualClock
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.errors import InvalidInput, TableChanged
from workers.files.names import parse_log_file
from workers.lakehouse import open_table

SCHEMA = schema_of(
    id=pa.string(),
    shown_at=pa.int64(),
    site=pa.string(),
    price=pa.float64(),
    clicked_at=pa.int64(),
    x=pa.int32(),
    note=pa.string(),
)
SHOWN = {"name": "shown", "ordering": ["shown_at"], "columns": ["site", "price"]}
CLICK = {"name": "click", "ordering": ["clicked_at"], "columns": ["x"]}
ONE_BUCKET = {"hoodie__bucket__index__num__buckets": "1"}
DIRECT = {"hoodie.write.markers.type": "direct"}
NON_BLOCKING = DIRECT | {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


def made(
    tables: ScenarioTables, table_type: str = "MERGE_ON_READ", *groups: dict[str, Any], **more: str
) -> ScenarioTable:
    options = {
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.multistream.groups": json.dumps(groups or [SHOWN, CLICK]),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return tables(table_type=table_type, schema=SCHEMA, options=options)


def write(table: ScenarioTable, *rows: Row, stream: str | None = None) -> None:
    """One commit in the mode that the table type allows."""
    is_mor = table.table.config.is_merge_on_read
    writer = table.writer("w", mode="non-blocking" if is_mor else "optimistic", stream=stream)
    writer.upsert_and_commit(*rows)


def compact(table: ScenarioTable) -> None:
    if table.table.config.is_merge_on_read:
        run(table, "compaction")


def shown(key: str, at: int | None, site: str | None = "s", price: float | None = 1.0) -> Row:
    return {"id": key, "shown_at": at, "site": site, "price": price}


def click(key: str, at: int | None, x: int | None = 1) -> Row:
    return {"id": key, "clicked_at": at, "x": x}


def wide(key: str, **cells: Any) -> Row:
    return dict.fromkeys(SCHEMA.names) | {"id": key} | cells


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def ads(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return made(tables, request.param)


VERSIONS = [
    shown("k", 10, "old", 1.0),
    shown("k", 30, "new", 3.0),
    click("k", 5, 5),
    click("k", 7, 7),
]
JOINED = wide("k", shown_at=30, site="new", price=3.0, clicked_at=7, x=7)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("compacted_after", [0, 2, 4])
def test_every_order_of_arrival_makes_the_same_row(
    tables: ScenarioTables, table_type: str, compacted_after: int
) -> None:
    for order in list(itertools.permutations(VERSIONS))[::5]:
        table = made(tables, table_type)
        for number, version in enumerate(order, start=1):
            write(table, version)
            if number == compacted_after:
                compact(table)
        assert table.rows() == [JOINED], order


def test_clocks_of_streams_are_not_compared(ads: ScenarioTable) -> None:
    write(ads, shown("k", 1_000_000))

    write(ads, click("k", 1, x=4))

    assert ads.rows() == [wide("k", shown_at=1_000_000, site="s", price=1.0, clicked_at=1, x=4)]


def test_a_null_that_is_said_is_stored_and_an_absent_group_says_nothing(ads: ScenarioTable) -> None:
    write(ads, shown("k", 1), click("k", 1))
    write(ads, shown("k", 2, site=None, price=None))

    assert ads.rows() == [wide("k", shown_at=2, clicked_at=1, x=1)]


def test_a_null_ordering_value_skips_the_group(ads: ScenarioTable) -> None:
    write(ads, shown("k", 1, "kept"))

    write(ads, {**shown("k", None, "lost"), **click("k", 3)})

    assert ads.rows() == [wide("k", shown_at=1, site="kept", price=1.0, clicked_at=3, x=1)]


def test_replaying_what_was_written_changes_nothing(ads: ScenarioTable) -> None:
    for version in (*VERSIONS, *VERSIONS, VERSIONS[0], VERSIONS[2]):
        write(ads, version)

    assert ads.rows() == [JOINED]


def test_a_deleted_group_stays_deleted_for_what_is_older(ads: ScenarioTable) -> None:
    write(ads, shown("k", 20), click("k", 1))
    write(ads, {**shown("k", 30, None, None), "_hoodie_is_deleted": True})
    compact(ads)

    write(ads, shown("k", 25, "late"))

    assert ads.rows() == [wide("k", shown_at=30, clicked_at=1, x=1)]
    compact(ads)
    write(ads, shown("k", 31, "back"))
    assert ads.rows()[0]["site"] == "back"


def test_a_row_of_deleted_groups_is_gone_and_remembered(ads: ScenarioTable) -> None:
    write(ads, shown("k", 20), shown("other", 1))
    write(ads, {"id": "k", "shown_at": 30, "_hoodie_is_deleted": True})
    compact(ads)
    assert [row["id"] for row in ads.rows()] == ["other"]

    write(ads, shown("k", 25, "late"))
    compact(ads)
    assert [row["id"] for row in ads.rows()] == ["other"]

    write(ads, click("k", 1, x=9))
    assert ads.rows()[0] == wide("k", shown_at=30, clicked_at=1, x=9)


@pytest.mark.parametrize(("minutes", "forgets"), [(1, False), (2, True)])
def test_tombstones_are_forgotten_after_their_retention(
    tables: ScenarioTables, minutes: int, *, forgets: bool
) -> None:
    clock = ManualClock()
    options = {
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.multistream.groups": json.dumps([SHOWN, CLICK]),
        "hoodie.multistream.tombstone.retention": "2m",
    }
    table = tables(schema=SCHEMA, options=options, clock=clock)
    write(table, shown("k", 20))
    write(table, {"id": "k", "shown_at": 30, "_hoodie_is_deleted": True})
    clock.advance(minutes * 60_000 + 1_000)
    write(table, shown("other", 1))  # This rewrite of the bucket may forget.
    write(table, shown("k", 25, "late"), shown("k2", 25))

    assert ("late" in [row["site"] for row in table.rows()]) is forgets


@pytest.mark.parametrize("text", ["0m", "0h", "0d", "000m", "-1m", "1"])
def test_a_retention_of_no_time_is_refused_with_the_table(
    tables: ScenarioTables, text: str
) -> None:
    with pytest.raises(InvalidInput, match="at least 1m"):
        made(tables, hoodie__multistream__tombstone__retention=text)


def test_a_delete_of_a_row_takes_every_group_up_to_its_age(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        row_deleting = SHOWN | {"delete": "row", "columns": ["site", "price", "note"]}
        table = made(tables, table_type, row_deleting, CLICK)
        write(table, {**shown("k", 10), "note": "n"}, click("k", 15), click("young", 30))
        write(table, {"id": "k", "shown_at": 20, "_hoodie_is_deleted": True})
        write(table, {"id": "young", "shown_at": 20, "_hoodie_is_deleted": True})
        compact(table)

        assert table.rows() == [wide("young", clicked_at=30, x=1, shown_at=20)]
        write(table, click("k", 19, x=99))
        assert [row["id"] for row in table.rows()] == ["young"]
        write(table, click("k", 21, x=21))
        assert table.rows()[0] == wide("k", clicked_at=21, x=21, shown_at=20)


def test_deleting_by_key_takes_whatever_is_there(ads: ScenarioTable) -> None:
    write(ads, shown("k", 20), click("k", 5), shown("other", 1))
    ads.lakehouse.delete(pa.table({"id": ["k"]}), options=DIRECT)
    assert [row["id"] for row in ads.rows()] == ["other"]

    write(ads, shown("k", 1, "afresh"))

    assert ads.rows()[0] == wide("k", shown_at=1, site="afresh", price=1.0)


@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted"])
@pytest.mark.parametrize("others", [(), ("k2",)], ids=["alone", "beside a row that is there"])
def test_deleting_by_key_leaves_what_was_deleted_deleted(
    ads: ScenarioTable, others: tuple[str, ...], is_compacted: bool
) -> None:
    """The delete of k was forgotten: in logs always, in a base file with another key of it."""
    write(ads, shown("k", 100), *(shown(key, 100) for key in others))
    write(ads, {"id": "k", "shown_at": 200, "_hoodie_is_deleted": True})
    if is_compacted:
        compact(ads)
    ads.lakehouse.delete(pa.table({"id": ["k", *others]}), options=DIRECT)

    write(ads, shown("k", 150, "late"), *(shown(key, 1, "afresh") for key in others))
    assert ads.rows("id", "site") == [{"id": key, "site": "afresh"} for key in others]
    compact(ads)
    assert ads.rows("id", "site") == [{"id": key, "site": "afresh"} for key in others]
    write(ads, shown("k", 201, "new"))
    assert {"id": "k", "site": "new"} in ads.rows("id", "site")


def test_columns_with_ages_of_their_own_are_written_one_by_one(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, SHOWN | {"granularity": "column"}, CLICK)
        write(table, shown("k", 10, "s10", 10.0))
        write(table, {"id": "k", "shown_at": 30, "site": "s30"})
        compact(table)
        write(table, {"id": "k", "shown_at": 20, "price": 20.0})
        write(table, {"id": "k", "shown_at": 20, "site": "late"})

        assert table.rows() == [wide("k", shown_at=30, site="s30", price=20.0)]


def test_null_mode_keep_passes_nulls_over(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, SHOWN | {"null_mode": "keep"}, CLICK)
        for version in (shown("k", 30, None, 30.0), shown("k", 20, "s20", 20.0), shown("k", 10)):
            write(table, version)
            compact(table)

        assert table.rows() == [wide("k", shown_at=30, site="s20", price=30.0)]


def test_aggregates_fold_all_versions(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        grouped = SHOWN | {"aggregates": {"price": "sum", "site": "first"}}
        table = made(tables, table_type, grouped, CLICK | {"aggregates": {"x": "max"}})
        for at in (20, 10, 30):
            write(table, shown("k", at, f"s{at}", float(at)), click("k", at, -at))
            if at == 10:
                compact(table)

        assert table.rows() == [
            wide("k", shown_at=30, site="s10", price=60.0, clicked_at=30, x=-10)
        ]


def test_defaults_stand_where_a_group_was_never_written(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, SHOWN, CLICK | {"defaults": {"x": -1}})
        write(table, shown("k", 1))
        assert table.rows() == [wide("k", shown_at=1, site="s", price=1.0, x=-1)]
        compact(table)
        assert table.rows() == [wide("k", shown_at=1, site="s", price=1.0, x=-1)]

        write(table, click("k", 1, None))
        assert table.rows()[0]["x"] is None


@pytest.mark.parametrize(("join", "ids"), [("left:click", ["b", "c"]), ("inner", ["c"])])
def test_rows_without_a_needed_group_are_stored_and_hidden(
    tables: ScenarioTables, join: str, ids: list[str]
) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, hoodie__multistream__join=join)
        write(table, shown("a", 1), shown("c", 1))
        write(table, click("b", 1), click("c", 1))
        assert [row["id"] for row in table.rows()] == ids
        compact(table)
        assert [row["id"] for row in table.rows()] == ids
        whole = open_table(table.location)
        assert sorted(whole.read(shows_unmatched=True).column("id").to_pylist()) == ["a", "b", "c"]

        write(table, click("a", 9))
        assert "a" in [row["id"] for row in table.rows()]


def test_a_row_is_news_when_it_becomes_visible_and_a_delete_when_it_hides(
    tables: ScenarioTables,
) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tables, table_type, hoodie__multistream__join="inner")
        write(table, shown("k", 1))
        before = table.instants()[-1].completed_at
        write(table, click("k", 1))
        shown_at = table.instants()[-1].completed_at
        write(table, {"id": "k", "clicked_at": 2, "_hoodie_is_deleted": True})

        reader = open_table(table.location)
        news = reader.read(since=before, until=shown_at, query="incremental")
        assert news.column("id").to_pylist() == ["k"]
        assert reader.read(since="earliest", until=before).num_rows == 0
        changes = reader.read(query="cdc", since="earliest").column("op").to_pylist()
        assert changes == ["i", "d"]


def test_time_travel_sees_the_groups_of_then(ads: ScenarioTable) -> None:
    write(ads, shown("k", 10, "then"))
    then = ads.instants()[-1].completed_at
    write(ads, shown("k", 20, "now"), click("k", 1))
    compact(ads)

    assert open_table(ads.location).read(as_of=then).to_pylist() == [
        wide("k", shown_at=10, site="then", price=1.0)
    ]


def test_a_stream_joins_while_others_write(ads: ScenarioTable) -> None:
    write(ads, shown("k", 1), click("k", 1))
    before = ads.rows()
    is_mor = ads.table.config.is_merge_on_read
    old = ads.writer("old", mode="non-blocking" if is_mor else "optimistic")
    bought = {"name": "bought", "ordering": ["bought_at"], "columns": ["amount"]}
    types: dict[str, pa.DataType] = {"bought_at": pa.int64(), "amount": pa.float64()}

    ads.lakehouse.add_group(bought, types, options=DIRECT)

    assert ads.rows() == [row | {"bought_at": None, "amount": None} for row in before]
    with pytest.raises(TableChanged):
        old.upsert(shown("k", 2))
    again = open_table(ads.location)
    again.write(pa.table({"id": ["k"], "bought_at": [1], "amount": [9.5]}), options=DIRECT)
    again.write(pa.table({"id": ["k"], "bought_at": [0], "amount": [1.5]}), options=DIRECT)
    compact(ads)
    assert ads.rows() == [row | {"bought_at": 1, "amount": 9.5} for row in before]
    assert ads.lakehouse.add_group(bought, types, options=DIRECT) is None


def test_streams_write_logs_of_their_own_columns(tables: ScenarioTables) -> None:
    table = made(tables)
    writer = table.writer("click", mode="non-blocking", stream="click")

    committed = writer.upsert_and_commit(click("k", 1))

    [stat] = table.metadata(committed.instant).stats
    assert parse_log_file(stat.file_name) is not None
    assert writer.transaction.context.columns == ("id", "clicked_at", "x")


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ({"id": "k", "site": "s", "price": 1.0}, "without what orders them"),
        ({"id": "k", "shown_at": 1, "site": "s"}, "lacks some of its columns"),
        ({"id": "k", "shown_at": None, "_hoodie_is_deleted": True}, "no ordering value"),
        ({"shown_at": 1, "site": "s", "price": 1.0}, "lacks key"),
    ],
)
def test_what_breaks_a_group_is_refused_before_anything_is_written(
    ads: ScenarioTable, batch: Row, why: str
) -> None:
    files = ads.data_files()
    with pytest.raises(InvalidInput, match=why):
        ads.lakehouse.write(ads.batch([batch]), options=DIRECT)
    assert ads.data_files() == files


def test_columns_of_a_group_are_neither_dropped_nor_renamed(ads: ScenarioTable) -> None:
    from workers.schema.alter import DropColumn, RenameColumn

    for change in (DropColumn("site"), RenameColumn("note", "remark")):
        with pytest.raises(InvalidInput):
            ads.lakehouse.alter(change, options=DIRECT)


def test_compaction_and_cleaning_run_beside_overlapping_writers(tables: ScenarioTables) -> None:
    table = made(tables)
    for round_ in range(4):
        writers = [table.writer(f"w{n}", mode="non-blocking") for n in range(3)]
        writers[0].upsert(*(shown(f"k{n}", round_ * 10 + n) for n in range(6)))
        writers[1].upsert(*(click(f"k{n}", 100 - round_) for n in range(6)))
        writers[2].upsert(*({"id": f"k{n}", "note": f"r{round_}"} for n in range(6)))
        run(table, "compaction")
        for writer in reversed(writers):
            writer.wins()
        run(table, "clean")

    assert table.rows() == [
        wide(f"k{n}", shown_at=30 + n, site="s", price=1.0, clicked_at=100, x=1, note="r3")
        for n in range(6)
    ]


def test_a_delete_by_predicate_takes_rows_that_the_join_hides(tables: ScenarioTables) -> None:
    table = made(tables, "COPY_ON_WRITE", hoodie__multistream__join="inner")
    write(table, shown("hidden", 1, "x"), shown("kept", 1, "y"))

    table.lakehouse.delete(predicate="site = 'x'", options=DIRECT)

    whole = open_table(table.location)
    assert whole.read(shows_unmatched=True).column("id").to_pylist() == ["kept"]
