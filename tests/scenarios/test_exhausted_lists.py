"""Lists of the n greatest that lose more than their slack: the commit by which they do says so."""

from __future__ import annotations

import json
import os
import random

import pyarrow as pa
import pytest

from tests.scenarios.test_list_slack import RATED, SCHEMA, compact, inexact, made, rated, types
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.concurrency.outcome import Committed

SEED = int(os.environ["SLUICE_TEST_SEED"])
FULL = ((5, "a"), (4, "b"), (3, "c"), (2, "d"))
"""One more than a list of two with a slack of one keeps."""
TWO_OUT = ((None, "a"), (None, "b"))


def small(tables: ScenarioTables, table_type: str) -> ScenarioTable:
    return made(tables, table_type, hoodie__topn__slack="1")


def write(table: ScenarioTable, *rows: Row) -> Committed:
    mode = "non-blocking" if table.table.config.is_merge_on_read else "optimistic"
    return table.writer("w", mode=mode, stream="rated").upsert_and_commit(*rows)


@types
@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_commit_that_takes_out_too_much_says_of_how_many_lists_and_of_which(
    tables: ScenarioTables, table_type: str, is_compacted: bool
) -> None:
    table = small(tables, table_type)
    filled = write(table, *(rated(key, 1, *FULL) for key in "kmno"))
    if is_compacted:
        compact(table)

    harmless = write(table, rated("k", 2, (None, "a")))
    exhausting = write(
        table, rated("k", 2, (None, "b")), rated("m", 2, *TWO_OUT), rated("n", 2, (9, "z"))
    )
    again = write(table, rated("k", 3, (None, "c")), rated("o", 3, (None, "a")))

    assert (filled.warnings, harmless.warnings, again.warnings) == ((), (), ())
    [warning] = exhausting.warnings
    assert warning.startswith("2 lists may miss elements since this commit"), warning
    assert "best of k, best of m" in warning
    assert (exhausting.lists_exhausted, again.lists_exhausted) == (2, 0)
    assert inexact(table) == ["k", "m"]


@types
def test_of_many_lists_the_first_are_named(tables: ScenarioTables, table_type: str) -> None:
    table, keys = small(tables, table_type), [f"k{number:02d}" for number in range(12)]
    write(table, *(rated(key, 1, *FULL) for key in keys))

    exhausting = write(table, *(rated(key, 2, *TWO_OUT) for key in keys))

    [warning] = exhausting.warnings
    assert warning.startswith("12 lists may miss elements")
    assert "best of k00" in warning
    assert "best of k09 and 2 more" in warning
    assert exhausting.lists_exhausted == 12


def test_of_two_at_once_the_one_that_takes_out_the_last_is_told(tables: ScenarioTables) -> None:
    table = small(tables, "MERGE_ON_READ")
    write(table, rated("k", 1, *FULL))
    first, second = (
        table.writer(name, mode="non-blocking", stream="rated") for name in ("first", "second")
    )
    first.upsert(rated("k", 2, (None, "a")))
    second.upsert(rated("k", 2, (None, "b")))

    assert (second.wins().lists_exhausted, first.wins().lists_exhausted) == (0, 1)
    assert inexact(table) == ["k"]


@types
def test_lists_are_read_again_only_where_something_is_taken_out(
    tables: ScenarioTables, table_type: str
) -> None:
    table = small(tables, table_type)
    write(table, rated("k", 1, *FULL))
    opened: list[str] = []
    storage = WatchedStorage(table.location, before=lambda _, path: opened.append(path))
    writer = table.writer("plain", stream="rated", storage=storage).upsert(rated("k", 2, (9, "z")))
    opened.clear()

    outcome = writer.wins()

    own = {stat.path for stat in table.metadata(outcome.instant).stats}
    assert {path for path in opened if not path.startswith(".hoodie")} <= own


def test_a_row_that_moves_brings_its_list_as_it_was(tables: ScenarioTables) -> None:
    """What was told before is not told again."""
    table = tables(
        table_type="MERGE_ON_READ",
        schema=pa.schema([*SCHEMA, pa.field("day", pa.string())]),
        partition_by=["day"],
        options={
            "hoodie.multistream.groups": json.dumps([RATED]),
            "hoodie.multistream.partition.update": "move",
            "hoodie.topn.slack": "1",
        },
    )
    write(table, {**rated("k", 1, *FULL), "day": "mon"}, {**rated("m", 1, *FULL), "day": "mon"})
    write(table, {**rated("k", 2, *TWO_OUT), "day": "mon"})

    moved = write(
        table,
        {**rated("k", 3, (None, "c")), "day": "tue"},
        {**rated("m", 3, *TWO_OUT), "day": "tue"},
    )

    assert inexact(table) == ["k", "m"]
    assert (moved.lists_exhausted, "best of m" in moved.warnings[0]) == (1, True)


@pytest.mark.sampled(every=2)
@types
def test_every_list_is_told_by_the_commit_that_exhausts_it(
    tables: ScenarioTables, table_type: str
) -> None:
    table, pick = small(tables, table_type), random.Random(SEED)
    for at in range(25):
        rows = [
            rated(
                key,
                at,
                *(
                    (None if pick.random() < 0.4 else pick.randrange(5), pick.choice("abcdefg"))
                    for _ in range(pick.randrange(1, 5))
                ),
            )
            for key in pick.sample("kmn", pick.randrange(1, 4))
        ]
        before = set(inexact(table))

        exhausting = write(table, *rows)

        new = set(inexact(table)) - before
        assert exhausting.lists_exhausted == len(new), f"SLUICE_TEST_SEED={SEED}"
        assert all(f"best of {key}" in " ".join(exhausting.warnings) for key in new)
        if pick.random() < 0.3:
            compact(table)
