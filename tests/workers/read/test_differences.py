"""Rows that differ: what one commit changed, and two moments side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.read.test_row_history import INDEXES, KINDS, made, write
from workers import LakehouseTable
from workers.errors import InvalidInput
from workers.read.differences import (
    DifferencePlan,
    plan_commit,
    plan_moments,
    unit_differences,
)


def differing(
    plan: DifferencePlan, *, rows_max: int = 100, but: str = ""
) -> tuple[set[tuple[Any, ...]], bool]:
    """(op, key, city before, city after, changed) of each row, and whether these are all."""
    compared = [name for name in plan.columns if name != but]
    rows: set[tuple[Any, ...]] = set()
    is_whole = True
    for unit in plan.units:
        part = unit_differences(plan, unit, compared, rows_max)
        is_whole = is_whole and part.is_whole
        for row in part.rows.to_pylist():
            before, after = row["before"], row["after"]
            cities = (before and before["city"], after and after["city"])
            rows.add((row["op"], row["key"], *cities, tuple(row["changed"] or ())))
    return rows, is_whole


def moments(table: LakehouseTable) -> list[str]:
    """When each write completed, after the one that brought the schema."""
    return [str(one.completed_at) for one in table.table.timeline().list_completed_writes()][1:]


@pytest.mark.parametrize("kind", KINDS)
def test_commit_shows_what_it_inserted_updated_and_wrote_anew(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, kind, INDEXES[0])
    write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"), ("c", 1, "Kiel"))
    instant = write(table, ("a", 2, "Bergen"), ("b", 1, "Rome"), ("d", 1, "Lund"))

    rows, is_whole = differing(plan_commit(table.table, instant))

    assert rows == {
        ("u", "a", "Oslo", "Bergen", ("ts", "city")),
        ("u", "b", "Rome", "Rome", ()),
        ("i", "d", None, "Lund", ()),
    }
    assert is_whole


@pytest.mark.parametrize("kind", KINDS)
def test_commit_that_deletes_shows_what_stood_there(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, kind, INDEXES[1])
    write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    outcome = table.delete(predicate="city = 'Oslo'")

    rows, _ = differing(plan_commit(table.table, outcome.instant))

    assert rows == {("d", "a", "Oslo", None, ())}


@pytest.mark.parametrize("options", INDEXES, ids=["bucket", "bloom"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_moments_differ_by_what_is_left_of_all_between(
    tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = made(tmp_path, kind, options)
    write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"), ("c", 1, "Kiel"))
    write(table, ("a", 2, "Bergen"), ("x", 2, "Turku"))
    write(table, ("a", 3, "Oslo"), ("b", 3, "Paris"))
    table.delete(predicate="city = 'Turku' OR city = 'Kiel'")
    times = moments(table)

    rows, is_whole = differing(plan_moments(table.table, times[0], times[-1]))

    assert rows == {
        ("u", "a", "Oslo", "Oslo", ("ts",)),
        ("u", "b", "Rome", "Paris", ("ts", "city")),
        ("d", "c", "Kiel", None, ()),
    }
    assert is_whole


def test_clustering_between_two_moments_changes_no_row(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ", INDEXES[0])
    write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    write(table, ("b", 2, "Paris"))
    table.compact()
    table.cluster(["city"])
    times = moments(table)

    assert differing(plan_moments(table.table, times[1], times[-1])) == (set(), True)
    rows, _ = differing(plan_moments(table.table, times[0], times[-1]))
    assert rows == {("u", "b", "Rome", "Paris", ("ts", "city"))}


@pytest.mark.parametrize("kind", KINDS)
def test_row_that_moves_to_another_partition_is_one_update(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, kind, {"hoodie.index.type": "GLOBAL_BLOOM"})
    write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    instant = write(table, ("a", 2, "Oslo"), day="d2")
    times = moments(table)

    move = ("u", "a", "Oslo", "Oslo", ("ts", "day"))
    assert differing(plan_commit(table.table, instant)) == ({move}, True)
    assert differing(plan_moments(table.table, times[0], times[1])) == ({move}, True)


def test_difference_that_may_not_be_looked_at_is_none(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    write(table, ("a", 1, "Oslo"))
    write(table, ("a", 1, "Rome"))
    times = moments(table)

    rows, _ = differing(plan_moments(table.table, times[0], times[1]), but="city")

    assert rows == set()


def test_more_rows_than_are_wanted_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", {"hoodie.bucket.index.num.buckets": "1"})
    instant = write(table, *((f"k{at}", 1, "Oslo") for at in range(9)))

    rows, is_whole = differing(plan_commit(table.table, instant), rows_max=4)

    assert len(rows) == 4
    assert not is_whole


def test_instant_that_is_no_completed_write_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    write(table, ("a", 1, "Oslo"))
    (time,) = moments(table)

    with pytest.raises(InvalidInput, match="no completed write has this time"):
        plan_commit(table.table, "20200101000000000")
    with pytest.raises(InvalidInput, match="not later"):
        plan_moments(table.table, time, time)
