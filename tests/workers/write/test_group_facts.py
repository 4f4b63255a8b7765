"""What commits tell of each column group: what they brought, passed over and keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.joined import group_facts, make, write
from workers.timeline.group_facts import add_facts


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
        facts.append(group_facts(table, table.compact().instant or ""))

    shop = add_facts(facts[1:])["shop"]
    assert (shop["late"], shop["late_key"]) == (1, "a")
    assert facts[-1]["shop"]["tombstones"] == 1
    assert table.read().to_pydict()["price"] == [1.0]
