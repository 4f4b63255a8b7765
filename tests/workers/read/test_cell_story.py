"""Why a cell is null: told from the one file slice that holds its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.joined import DIRECT, commit, make
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable
from workers.read.cell_story import CellStory, explain_cell


def story(table: LakehouseTable, key: str, column: str) -> CellStory:
    (cell_story,) = explain_cell(table.table, key, column=column)
    return cell_story


@pytest.mark.parametrize("compacts", [False, True])
def test_a_group_that_never_wrote_a_key_is_the_answer(tmp_path: Path, compacts: bool) -> None:
    table = make(tmp_path)
    at = commit(table, {"id": "a", "shop_ts": 5, "price": 1.0})
    if compacts:
        table.compact()

    cell_story = story(table, "a", "road")

    assert (cell_story.owner, cell_story.verdict) == ("ship", "never")
    shop = next(one for one in cell_story.groups if one.group == "shop")
    assert (shop.verdict, shop.age) == ("set", ("5",))
    assert shop.current_version is not None
    assert (shop.current_version.commit, shop.current_version.is_in_base) == (at, compacts)


@pytest.mark.parametrize("compacts", [False, True])
def test_a_deleted_group_says_since_when(tmp_path: Path, compacts: bool) -> None:
    table = make(tmp_path)
    commit(table, {"id": "a", "shop_ts": 5, "price": 1.0, "ship_ts": 1, "road": "x"})
    at = commit(table, {"id": "a", "shop_ts": 7, "_hoodie_is_deleted": True})
    commit(table, {"id": "a", "shop_ts": 6, "price": 9.0})
    if compacts:
        table.compact()

    cell_story = story(table, "a", "price")

    assert (cell_story.owner, cell_story.verdict) == ("shop", "deleted")
    shop = next(one for one in cell_story.groups if one.group == "shop")
    assert shop.age == ("7",)
    assert shop.current_version is not None
    assert shop.current_version.commit == at
    if not compacts:
        assert [one.counts for one in shop.versions] == [False, True, False]


def test_a_null_that_was_said_is_told_from_one_that_nobody_said(tmp_path: Path) -> None:
    table = make(tmp_path)
    commit(table, {"id": "a", "shop_ts": 5, "price": None, "ship_ts": 3, "road": None})
    commit(table, {"id": "b", "shop_ts": 5, "price": 2.0})

    assert story(table, "a", "price").verdict == "null"
    assert story(table, "a", "road").verdict == "not_brought"
    assert story(table, "b", "price").verdict == "set"


def test_a_key_that_was_deleted_by_key_says_so(tmp_path: Path) -> None:
    import pyarrow as pa

    table = make(tmp_path)
    commit(table, {"id": "a", "shop_ts": 5, "price": 1.0})
    table.delete(pa.table({"id": ["a"]}), options=DIRECT)

    assert story(table, "a", "price").verdict == "erased"


def test_a_key_that_nobody_wrote_has_no_story(tmp_path: Path) -> None:
    table = make(tmp_path)
    commit(table, {"id": "a", "shop_ts": 5, "price": 1.0})

    assert explain_cell(table.table, "z", column="price") == ()


def test_key_columns_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    commit(table, {"id": "a", "shop_ts": 5, "price": 1.0})

    for column in ("id", "nothing"):
        with pytest.raises(InvalidInput):
            explain_cell(table.table, "a", column=column)
