"""Lists of the n greatest beside readers of changes, stories of cells and deletes by mark: what is
taken out of a list is a change of its row like any other.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_list_slack import best, compact, made, rated, types, write
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables
from workers.errors import InvalidInput
from workers.read.cell_story import explain_cell

FIRST = [rated("k", 1, (5, "a"), (4, "b"), (3, "c"))]
TAKEN_OUT = [rated("k", 2, (None, "a"))]
UNKNOWN = [rated("k", 3, (None, "nobody"))]


def now(table: ScenarioTable) -> str:
    return max(str(one.completed_at) for one in table.table.timeline().iterate_completed())


def items(row: dict[str, Any] | None) -> list[str] | None:
    return None if row is None else [one["item"] for one in row["best"]]


def changes(table: ScenarioTable, since: str, until: str) -> list[Any]:
    change_rows = table.lakehouse.read(query="cdc", since=since, until=until).to_pylist()
    return [(one["op"], items(one["before"]), items(one["after"])) for one in change_rows]


@pytest.mark.sampled(every=3)
@types
@pytest.mark.parametrize("compacted_after", [0, 1, 2])
def test_changes_tell_the_list_before_and_after_an_item_was_taken_out(
    tables: ScenarioTables, table_type: str, compacted_after: int
) -> None:
    table = made(tables, table_type)
    times = [now(table)]
    for number, rows in enumerate([FIRST, TAKEN_OUT, UNKNOWN], start=1):
        write(table, *rows)
        times.append(now(table))
        if number == compacted_after:
            compact(table)

    assert changes(table, times[0], times[1]) == [("i", None, ["a", "b"])]
    assert changes(table, times[1], times[2]) == [("u", ["a", "b"], ["b", "c"])]
    later = [("u", ["a", "b"], ["b", "c"]), ("u", ["b", "c"], ["b", "c"])]  # Of another age.
    assert changes(table, times[0], times[3]) == [("i", None, ["a", "b"]), *later]
    late = table.lakehouse.read(query="incremental", since=times[1], until=times[2])
    assert [items(row) for row in late.to_pylist()] == [["b", "c"]]
    past = table.lakehouse.read(as_of=times[1])
    assert [items(row) for row in past.to_pylist()] == [["a", "b"]]


@types
def test_the_story_of_a_list_is_that_of_its_group_whatever_was_taken_out(
    tables: ScenarioTables, table_type: str
) -> None:
    table = made(tables, table_type)
    for rows in (FIRST, [rated("k", 2, (None, "a"), (None, "b"), (None, "c"))]):
        write(table, *rows)

    (story,) = explain_cell(table.table, "k", column="best")

    assert best(table) == []
    assert (story.owner, story.verdict) == ("rated", "set")
    (group,) = [one for one in story.groups if one.group == "rated"]
    assert (group.age, group.current_version is not None) == (("2",), True)
    assert not any(one.is_delete for one in group.versions)
    table.lakehouse.delete(pa.table({"id": ["k"]}))
    left = explain_cell(table.table, "k", column="best")
    assert [one.verdict for one in left] in ([], ["erased"])


@types
def test_a_delete_by_mark_is_refused_with_what_takes_items_and_keys_out(
    tables: ScenarioTables, table_type: str
) -> None:
    table = made(tables, table_type)
    write(table, *FIRST)
    before = table.listing()
    marked: Row = {"id": "k", "at": 9, "best": None, "_hoodie_is_deleted": True}

    with pytest.raises(InvalidInput, match=r"null score.*delete\(keys\).*group=rated"):
        write(table, marked)

    assert table.listing() == before
    assert best(table) == [(5, "a"), (4, "b")]
