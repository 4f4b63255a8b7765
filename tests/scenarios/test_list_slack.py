"""Lists of the n greatest in tables: elements that are taken out again, and what is told of lists
that cannot be whole any more.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.scenarios.services import run
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.errors import InvalidInput
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import open_table

SEED = int(os.environ["SLUICE_TEST_SEED"])
SLACK = "hoodie.topn.slack"
BEST = pa.list_(pa.struct([pa.field("score", pa.int64()), pa.field("item", pa.string())]))
SCHEMA = schema_of(id=pa.string(), at=pa.int64(), best=BEST)
RATED = {
    "name": "rated",
    "ordering": ["at"],
    "columns": ["best"],
    "aggregates": {"best": "collect_topn(2)"},
}
types = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def made(tables: ScenarioTables, table_type: str, **options: str) -> ScenarioTable:
    given = {
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.multistream.groups": json.dumps([RATED]),
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    return tables(table_type=table_type, schema=SCHEMA, options=given)


def rated(key: str, at: int, *items: tuple[int | None, str]) -> Row:
    return {"id": key, "at": at, "best": [{"score": score, "item": item} for score, item in items]}


def write(table: ScenarioTable, *rows: Row) -> None:
    mode = "non-blocking" if table.table.config.is_merge_on_read else "optimistic"
    table.writer("w", mode=mode, stream="rated").upsert_and_commit(*rows)


def compact(table: ScenarioTable) -> None:
    if table.table.config.is_merge_on_read:
        run(table, "compaction")


def best(table: ScenarioTable, key: str = "k") -> list[tuple[int, str]] | None:
    (elements,) = [row["best"] for row in table.rows() if row["id"] == key]
    return None if elements is None else [(item["score"], item["item"]) for item in elements]


def inexact(table: ScenarioTable) -> list[str]:
    inexact_lists = open_table(table.location).inexact_lists()
    assert set(inexact_lists.column("column").to_pylist()) <= {"best"}
    return sorted(str(key) for key in inexact_lists.column("_hoodie_record_key").to_pylist())


@types
@pytest.mark.parametrize("compacted_after", [0, 1, 2, 3])
def test_an_item_that_is_taken_out_makes_room_for_what_the_slack_kept(
    tables: ScenarioTables, table_type: str, compacted_after: int
) -> None:
    table = made(tables, table_type)
    commits = [
        [rated("k", 1, (5, "a"), (4, "b"), (3, "c"), (2, "d"), (1, "e"))],
        [rated("k", 2, (None, "a"))],
        [rated("k", 1, (None, "b"), (1, "b")), rated("other", 1, (None, "a"))],
    ]

    for number, rows in enumerate(commits, start=1):
        write(table, *rows)
        if number == compacted_after:
            compact(table)

    assert best(table) == [(3, "c"), (2, "d")]
    assert best(table, "other") == []
    assert inexact(table) == []


@types
def test_more_retractions_than_slack_are_told_and_deleting_the_key_begins_anew(
    tables: ScenarioTables, table_type: str
) -> None:
    table = made(tables, table_type, hoodie__topn__slack="1")
    write(table, rated("k", 1, (5, "a"), (4, "b"), (3, "c"), (2, "d")), rated("m", 1, (1, "a")))
    compact(table)
    write(table, rated("k", 2, (None, "a"), (None, "b")), rated("m", 2, (None, "a"), (None, "b")))

    assert (best(table), inexact(table)) == ([(3, "c")], ["k"])
    compact(table)
    assert (best(table), inexact(table)) == ([(3, "c")], ["k"])

    table.lakehouse.delete(pa.table({"id": ["k"]}))
    write(table, rated("k", 3, (2, "d"), (1, "e")))

    assert (best(table), inexact(table)) == ([(2, "d"), (1, "e")], [])


@types
def test_a_base_file_shows_n_elements_and_remembers_no_retraction(
    tables: ScenarioTables, table_type: str
) -> None:
    """What other readers take for the list, and what no commit could need any more."""
    table = made(tables, table_type)
    write(table, rated("k", 1, (3, "a"), (2, "b"), (1, "c")), rated("m", 1, (None, "a"), (1, "b")))
    compact(table)

    (base,) = [one.base_file for one in table.lakehouse.file_groups()]
    assert base is not None
    columns = ["id", "best", "_ms_list_best"]
    base_rows = pq.read_table(table.location / base, columns=columns).to_pylist()

    shown, memory = ({row["id"]: row[name] for row in base_rows} for name in columns[1:])
    assert shown == {row["id"]: row["best"] for row in table.rows()}
    assert {key: len(elements) for key, elements in shown.items()} == {"k": 2, "m": 1}
    assert [one["element"]["item"] for one in memory["k"]] == ["a", "b", "c"]
    assert memory["m"] is None


def test_a_row_that_moves_takes_its_slack_along(tables: ScenarioTables) -> None:
    options = {
        "hoodie.multistream.groups": json.dumps([RATED]),
        "hoodie.multistream.partition.update": "move",
    }
    schema = schema_of(**{one.name: one.type for one in SCHEMA}, day=pa.string())
    moving = tables(
        table_type="MERGE_ON_READ", schema=schema, partition_by=["day"], options=options
    )

    write(moving, {**rated("k", 1, (3, "a"), (2, "b"), (1, "c")), "day": "mon"})
    write(moving, {**rated("k", 2, (None, "a")), "day": "tue"})

    assert (best(moving), moving.rows("day")) == ([(2, "b"), (1, "c")], [{"day": "tue"}])


@types
def test_an_incremental_reader_sees_who_moved_up(tables: ScenarioTables, table_type: str) -> None:
    table = made(tables, table_type)
    write(table, rated("k", 1, (5, "a"), (4, "b"), (3, "c")), rated("m", 1, (1, "a")))
    since = table.instants()[-1].completed_at

    write(table, rated("k", 1, (None, "a")))
    (changed,) = table.lakehouse.read(query="incremental", since=since).to_pylist()
    earlier = table.lakehouse.read(as_of=since).to_pylist()

    assert (changed["id"], changed["best"]) == ("k", rated("k", 1, (4, "b"), (3, "c"))["best"])
    assert {row["id"]: row["best"][0]["score"] for row in earlier} == {"k": 5, "m": 1}


@types
def test_a_table_from_before_there_was_slack_keeps_n_and_takes_null_for_a_score(
    tables: ScenarioTables, table_type: str
) -> None:
    table = made(tables, table_type)
    properties = dict(load_properties(table.storage))
    assert properties.pop(SLACK) == "n"
    store_properties(table.storage, properties)
    table.lakehouse = open_table(table.location, ports=table.ports())

    write(table, rated("k", 1, (5, "a"), (4, "b"), (3, "c")), rated("m", 1, (None, "z")))
    compact(table)
    write(table, rated("k", 2, (None, "a")))

    lists: dict[str, Any] = {row["id"]: row["best"] for row in table.rows()}
    assert lists == {
        "k": rated("k", 2, (5, "a"), (4, "b"))["best"],
        "m": rated("m", 1, (None, "z"))["best"],
    }
    assert inexact(table) == []


def test_a_slack_that_is_none_is_refused(tables: ScenarioTables) -> None:
    for slack in ("-1", "many", "1.5", "10000"):
        with pytest.raises(InvalidInput, match="slack is a whole number below 10,000"):
            made(tables, "MERGE_ON_READ", hoodie__topn__slack=slack)
    with pytest.raises(InvalidInput, match="only a table with column groups has this"):
        tables(schema=SCHEMA, options={SLACK: "1"})


class Oracle:
    """Items with their scores, in the order in which they first had them."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}

    def hears(self, row: Row) -> None:
        for element in row["best"]:
            score, item = element["score"], element["item"]
            if score is None:
                self.items.pop(item, None)
            elif item not in self.items or score > self.items[item]:
                self.items.pop(item, None)
                self.items[item] = score

    @property
    def best(self) -> list[tuple[int, str]]:
        """Python's sort keeps equal ones in their order."""
        listed = sorted(self.items.items(), key=lambda item: -item[1])
        return [(score, item) for item, score in listed[:2]]


@pytest.mark.sampled(every=4)
@types
@pytest.mark.parametrize("slack", ["n", "0"])
def test_lists_are_what_is_left_or_are_named_whatever_is_compacted_when(
    tables: ScenarioTables, table_type: str, slack: str
) -> None:
    table, pick = made(tables, table_type, hoodie__topn__slack=slack), random.Random(SEED)
    oracles = {key: Oracle() for key in "kmn"}
    for _ in range(25):
        rows = [
            rated(
                pick.choice("kmn"),
                pick.randrange(9),
                *(
                    (None if pick.random() < 0.35 else pick.randrange(5), pick.choice("abcdefgh"))
                    for _ in range(pick.randrange(1, 6))
                ),
            )
            for _ in range(pick.randrange(1, 4))
        ]
        write(table, *rows)
        for row in rows:
            oracles[row["id"]].hears(row)
        if pick.random() < 0.3:
            compact(table)

        named = inexact(table)
        for row in table.rows():
            oracle, shown = oracles[row["id"]], best(table, row["id"])
            assert shown is not None
            if row["id"] not in named:
                assert shown == oracle.best, f"SLUICE_TEST_SEED={SEED}"
            assert {item for _, item in shown} <= set(oracle.items), f"SLUICE_TEST_SEED={SEED}"
