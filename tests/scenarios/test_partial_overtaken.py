"""Non-blocking writers of partial rows: hudi-rs sees what we see when each write returns, or the
commit says of how many keys it does not.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.overtaking import keys_read_otherwise
from tests.support.partial_writers import (
    SCHEMA,
    WIDER,
    commits_of_partial_writers,
    marked,
    partial_table,
    said,
)
from tests.support.scenario_table import ScenarioTable, ScenarioWriter

SEED = int(os.environ["SLUICE_TEST_SEED"])
TABLES_TRIED = 4
Act = Callable[[ScenarioWriter], ScenarioWriter]
both = pytest.mark.parametrize("is_ordered", [True, False], ids=["event time", "commit time"])


def upsert(ts: int, **cells: int) -> Act:
    schema = WIDER if "d" in cells else SCHEMA
    return lambda writer: writer.upsert(said(1, ts, **cells), schema=schema)


def made_anew(ts: int, **cells: int) -> Act:
    """A delete, and a row of the same key behind it, in one batch."""
    schema = WIDER if "d" in cells else SCHEMA
    rows = (said(1, ts), True), (said(1, ts, **cells), False)
    return lambda writer: marked(writer, *rows, schema=schema)


def of_many_ages(**cells: int) -> Act:
    rows = said(1, 6, a=50, **cells), said(1, 5, b=60, **cells), said(1, 2, c=60, **cells)
    return lambda writer: writer.upsert(*rows, schema=WIDER)


def seen_alike(table: ScenarioTable) -> bool:
    return not keys_read_otherwise(table)


@pytest.mark.sampled(every=2)
@both
@pytest.mark.parametrize(
    "acts",
    [
        [upsert(5, a=50), upsert(6, b=7)],
        [upsert(6, a=50), upsert(5, a=9, b=7, c=8)],
    ],
    ids=["less and less", "all behind more"],
)
def test_a_column_that_is_added_leaves_what_partial_rows_in_logs_say(
    tmp_path: Path, is_ordered: bool, acts: list[Act]
) -> None:
    table = partial_table(tmp_path / "table", is_ordered=is_ordered)
    for number, act in enumerate(acts):
        act(table.writer(f"writer{number}", mode="non-blocking")).wins()
        assert seen_alike(table)

    table.writer("other").upsert_and_commit({**said(2, 6), "d": 1}, schema=WIDER)
    assert seen_alike(table)
    table.writer("same").upsert_and_commit({**said(1, 4), "d": 1}, schema=WIDER)

    assert seen_alike(table)
    table.assert_referee_agrees()


@pytest.mark.sampled(every=2)
@both
@pytest.mark.parametrize(
    ("late", "rival"),
    [
        (upsert(5, a=50, d=1), upsert(6, b=7)),
        (upsert(5, a=50, d=1), upsert(6, a=7)),
        (upsert(5, a=50), upsert(6, b=7, d=1)),
        (upsert(5, a=50, d=1), upsert(5, a=7, b=7)),
    ],
    ids=["apart", "of one column", "the other brings it", "tie"],
)
def test_partial_rows_of_a_writer_who_was_overtaken_are_seen_with_a_new_column(
    tmp_path: Path, is_ordered: bool, late: Act, rival: Act
) -> None:
    table = partial_table(tmp_path / "table", is_ordered=is_ordered)
    writer = late(table.writer("late", mode="non-blocking"))
    rival(table.writer("rival", mode="non-blocking")).wins()

    outcome = writer.wins()

    assert outcome.divergent_keys == 0
    assert seen_alike(table)


@pytest.mark.sampled(every=2)
@both
@pytest.mark.parametrize(
    ("late", "rival"),
    [
        (made_anew(5, a=50), None),
        (made_anew(5, a=50), upsert(4, b=7, d=9)),
        (made_anew(5, a=50, d=1), upsert(4, b=7)),
        (made_anew(5, a=50, b=1, c=1), upsert(4, b=7)),
        (of_many_ages(d=1), upsert(6, b=7)),
        (of_many_ages(d=1), None),
    ],
    ids=[
        "alone",
        "other brings a column",
        "brings a column",
        "says all",
        "ages behind another",
        "ages",
    ],
)
def test_what_cannot_be_stated_again_is_counted_until_a_compaction(
    tmp_path: Path, is_ordered: bool, late: Act, rival: Act | None
) -> None:
    """Other engines fill a row up from the base file's that we take for deleted, or for older."""
    table = partial_table(tmp_path / "table", is_ordered=is_ordered)
    writer = late(table.writer("late", mode="non-blocking"))
    if rival is not None:
        rival(table.writer("rival", mode="non-blocking")).wins()

    outcome = writer.wins()

    assert outcome.divergent_keys == len(keys_read_otherwise(table))
    table.lakehouse.compact()
    assert seen_alike(table)


def test_a_newer_row_is_counted_that_takes_from_one_older_than_the_base_files(
    tmp_path: Path,
) -> None:
    table = partial_table(tmp_path / "table", is_ordered=True)

    older = table.writer("older").upsert_and_commit(said(1, 2, a=50))
    newer = table.writer("newer").upsert_and_commit(said(1, 5, b=50))

    assert (older.divergent_keys, newer.divergent_keys) == (0, 1)
    assert keys_read_otherwise(table) == [1]
    table.lakehouse.compact()
    assert seen_alike(table)


@pytest.mark.parametrize("ts", [4, 5], ids=["newer", "tie"])
def test_a_row_between_two_of_the_logs_is_counted(tmp_path: Path, ts: int) -> None:
    """Whatever stands in the base file: the first that fills a row up stays there."""
    table = partial_table(tmp_path / "table", is_ordered=True)
    table.writer("newest").upsert_and_commit(said(1, 6, a=50))
    oldest = table.writer("oldest").upsert_and_commit(said(1, ts, b=7))

    between = table.writer("between").upsert_and_commit(said(1, 5, b=3))

    assert (oldest.divergent_keys, between.divergent_keys) == (0, 1)
    assert keys_read_otherwise(table) == [1]


@pytest.mark.sampled(every=2)
@both
@pytest.mark.slow
def test_partial_writers_that_pause_at_random_are_seen_alike_or_counted(
    tmp_path: Path, is_ordered: bool
) -> None:
    for number in range(TABLES_TRIED):
        seed = SEED + number
        table = partial_table(tmp_path / f"table{number}", is_ordered=is_ordered)
        for outcome in commits_of_partial_writers(table, random.Random(seed), commits=10):
            keys = keys_read_otherwise(table)
            assert outcome.divergent_keys == len(keys), f"SLUICE_TEST_SEED={seed} {keys}"
