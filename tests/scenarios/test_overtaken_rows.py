"""Non-blocking writers of one key that complete in another order than they were requested in: who
merges by the time of request sees what we see when each write returns.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from tests.support.overtaking import (
    SCHEMA,
    WIDER,
    commits_of_paused_writers,
    deleting,
    fill,
    keys_read_otherwise,
    row,
)
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, ScenarioWriter
from workers.timeline.metadata import RESTATED_KEYS_KEY, RESTATES_KEY

pytestmark = pytest.mark.sampled(every=2)

Act = Callable[[ScenarioWriter], ScenarioWriter]
TABLES_TRIED = 4
SEED = int(os.environ["SLUICE_TEST_SEED"])


def filled(tables: ScenarioTables, *, ordering: bool = True) -> ScenarioTable:
    given = ["ts"] if ordering else []
    one_bucket = {"hoodie.bucket.index.num.buckets": "1"}
    table = tables(table_type="MERGE_ON_READ", schema=SCHEMA, ordering=given, options=one_bucket)
    fill(table)
    return table


def upsert(*rows: Row) -> Act:
    return lambda writer: writer.upsert(*rows)


def delete(*keys: int) -> Act:
    return lambda writer: deleting(writer, *keys)


def overtaken(table: ScenarioTable, late: Act, rival: Act) -> ScenarioWriter:
    """`late` begins first and commits last."""
    writer = late(table.writer("late", mode="non-blocking"))
    rival(table.writer("rival", mode="non-blocking")).wins()
    table.assert_referee_agrees()
    return writer


@pytest.mark.parametrize(
    ("late", "rival", "city"),
    [
        (upsert(row(1, 5, "Late")), upsert(row(1, 5, "Rival")), "Late"),
        (delete(1), upsert(row(1, 5, "Rival")), None),
        (upsert(row(1, 5, "Late")), delete(1), "Late"),
        (upsert(row(1, 4, "Late")), upsert(row(1, 5, "Rival")), "Rival"),
        (upsert(row(1, 6, "Late")), upsert(row(1, 5, "Rival")), "Late"),
    ],
    ids=["tie", "delete by key", "row after a delete", "older", "newer"],
)
def test_every_reader_sees_the_writer_that_completed_last(
    tables: ScenarioTables, late: Act, rival: Act, city: str | None
) -> None:
    table = filled(tables)
    writer = overtaken(table, late, rival)

    writer.wins()

    table.assert_referee_agrees()
    assert [one["city"] for one in table.rows() if one["id"] == 1] == ([city] if city else [])
    assert table.leftovers() == []


def test_rows_by_commit_time_too(tables: ScenarioTables) -> None:
    table = filled(tables, ordering=False)
    writer = overtaken(table, upsert(row(1, 1, "Late")), upsert(row(1, 9, "Rival")))

    outcome = writer.wins()

    assert outcome.republished_keys == 1
    table.assert_referee_agrees()
    assert table.rows()[1]["city"] == "Late"


@pytest.mark.parametrize("ordering", [True, False], ids=["event time", "commit time"])
@pytest.mark.parametrize("ts", [4, 5, 6], ids=["older", "tie", "newer"])
@pytest.mark.parametrize("begins_first", [True, False], ids=["overtaken", "in order"])
def test_whole_row_says_null_in_a_column_that_its_writer_did_not_know(
    tables: ScenarioTables, ordering: bool, ts: int, begins_first: bool
) -> None:
    table = filled(tables, ordering=ordering)
    late, rival = (table.writer(name, mode="non-blocking") for name in ("late", "rival"))
    if begins_first:
        late.upsert(row(1, ts, "Late"))
    rival.upsert({**row(1, 5, "Rival"), "weight": 7}, schema=WIDER)
    if not begins_first:
        late.upsert(row(1, ts, "Late"))
    rival.wins()

    late.wins()

    table.assert_referee_agrees()
    seen = ("Rival", 7) if ordering and ts < 5 else ("Late", None)
    assert (table.rows()[1]["city"], table.rows()[1]["weight"]) == seen
    assert table.leftovers() == []


@pytest.mark.parametrize(
    ("others", "city"),
    [
        ([upsert(row(1, 5, "Unaware"))], "Unaware"),
        ([upsert(row(1, 4, "Unaware"))], "Late"),
        ([upsert(row(1, 5, "One")), upsert(row(1, 5, "Other"))], "Other"),
        ([upsert(row(1, 6, "One")), upsert(row(1, 5, "Other"))], "One"),
        ([upsert(row(1, 5, "Unaware")), delete(1)], "Late"),
        ([delete(1), upsert(row(1, 5, "Unaware"))], "Unaware"),
        ([upsert(row(1, 2, "Unaware"))], "Late"),
    ],
    ids=["wins", "ties", "two tie", "first wins", "deleted", "after a delete", "loses"],
)
@pytest.mark.parametrize("begins_with", [1, -1], ids=["in order", "in reverse"])
def test_row_that_stands_says_null_in_a_column_that_the_loser_of_a_late_commit_brought(
    tables: ScenarioTables, others: list[Act], city: str, begins_with: int
) -> None:
    table = filled(tables)
    late = table.writer("late", mode="non-blocking")
    late.upsert({**row(1, 4, "Late"), "weight": 7}, schema=WIDER)
    writers = [table.writer(f"rival{number}", mode="non-blocking") for number in range(len(others))]
    for writer, act in list(zip(writers, others, strict=True))[::begins_with]:
        act(writer)
    for writer in writers:
        writer.wins()

    late.wins()

    table.assert_referee_agrees()
    seen = table.rows()[1]
    assert seen["city"] == city
    assert seen["weight"] == (7 if city == "Late" else None)
    assert table.leftovers() == []


@pytest.mark.parametrize("ts", [4, 5, 6], ids=["older", "tie", "newer"])
def test_whole_row_says_null_in_a_column_of_the_base_file_that_its_writer_did_not_know(
    tables: ScenarioTables, ts: int
) -> None:
    one_bucket = {"hoodie.bucket.index.num.buckets": "1"}
    table = tables(table_type="MERGE_ON_READ", schema=SCHEMA, ordering=["ts"], options=one_bucket)
    late = table.writer("late", mode="non-blocking").upsert(row(1, ts, "Late"))
    table.writer("rival").upsert({**row(1, 5, "Rival"), "weight": 7}, schema=WIDER).wins()

    late.wins()

    table.assert_referee_agrees()
    assert table.rows()[0]["weight"] == (7 if ts < 5 else None)


def test_only_what_would_be_seen_otherwise_is_written_again(tables: ScenarioTables) -> None:
    table = filled(tables)
    late = upsert(row(1, 5, "Late"), row(2, 4, "Late"), row(3, 5, "Late"))
    writer = overtaken(table, late, upsert(row(1, 5, "Rival"), row(2, 5, "Rival")))

    outcome = writer.wins()

    assert outcome.republished_by is not None
    restating = table.metadata(outcome.republished_by)
    assert restating.extra_metadata[RESTATES_KEY] == outcome.instant
    assert restating.extra_metadata[RESTATED_KEYS_KEY] == "1"
    assert sum(one.num_writes for one in restating.stats) == 1


def test_nothing_is_written_again_for_rows_that_go_by_their_own_ordering_values(
    tables: ScenarioTables,
) -> None:
    table = filled(tables)
    writer = overtaken(table, upsert(row(1, 6, "Late")), upsert(row(1, 5, "Rival")))

    assert writer.wins().republished_by is None


@pytest.mark.parametrize("ordering", [True, False], ids=["event time", "commit time"])
def test_writers_that_pause_at_random_are_seen_alike_or_say_of_how_many_keys_not(
    tables: ScenarioTables, ordering: bool
) -> None:
    for number in range(TABLES_TRIED):
        table, chance = filled(tables, ordering=ordering), random.Random(SEED + number)

        for outcome in commits_of_paused_writers(table, chance, commits=10):
            keys = keys_read_otherwise(table)
            assert outcome.divergent_keys == len(keys), (SEED + number, outcome, keys)
            assert bool(outcome.warnings) == bool(keys), outcome

        table.lakehouse.compact()
        table.assert_referee_agrees()
