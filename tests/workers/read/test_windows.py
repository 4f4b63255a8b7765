"""Time travel, incremental and change reads against what plain snapshots said at the time.

A snapshot is taken after every commit of a random history; each later read is compared with those.
Every write has a value of its own, so a row says which commit wrote it.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hudi import HudiReadOptions, HudiTableBuilder

from tests.behaviours.setups import KINDS_AND_MODES
from tests.support.scenario_table import READINGS, Row, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from tests.workers.read.diary import Diary, changes, read
from workers import register_merger
from workers.clock import format_instant, parse_instant
from workers.lakehouse import open_table
from workers.read.request import EARLIEST

SEEDS = range(2)
KEYS = [f"k{number}" for number in range(10)]
EVENTS = [("a", "hour=08"), ("b", "hour=09"), ("c", "hour=10")]


def a_diary(tables: ScenarioTables, table_type: str, mode: str, seed: int) -> Diary:
    chance = random.Random(seed)
    table = tables(
        table_type=table_type,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    diary = Diary(table)
    for number in range(6):
        keys = chance.sample(KEYS, chance.randrange(1, 8))
        rows = [
            {
                "id": key,
                "place": f"p{int(key[1:]) % 3}",
                "ts": chance.randrange(4),
                "value": number,
                "note": f"{number}/{key}",
            }
            for key in keys
        ]
        table.writer("w", mode=mode).upsert_and_commit(*rows)
        diary.note()
    return diary


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(("table_type", "mode"), KINDS_AND_MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_moment_and_every_window_reads_as_it_was(
    tables: ScenarioTables, table_type: str, mode: str, seed: int
) -> None:
    diary = a_diary(tables, table_type, mode, seed)

    for at in diary.times[1:]:
        then = [diary.pages[at][key] for key in sorted(diary.pages[at])]
        assert read(diary.table, as_of=at) == then, f"seed={seed}"
    for number, since in enumerate(diary.times):
        for until in {*diary.times[number : number + 2], diary.times[-1]}:
            window = {"since": since, "until": until}
            assert read(diary.table, **window) == diary.written(since, until), f"seed={seed}"
            assert changes(diary.table, **window) == diary.changes(since, until), f"seed={seed}"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("table_type", "mode"), KINDS_AND_MODES)
def test_moment_between_two_commits_shows_the_earlier_one(
    tables: ScenarioTables, table_type: str, mode: str
) -> None:
    diary = a_diary(tables, table_type, mode, seed=1)
    _, first, second, *_ = diary.times
    between = format_instant(parse_instant(second) - 1)

    assert read(diary.table, as_of=between) == read(diary.table, as_of=first)
    assert read(diary.table, as_of=EARLIEST) == []


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(("table_type", "mode"), KINDS_AND_MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_hudi_rs_travels_to_the_same_rows(
    tables: ScenarioTables, table_type: str, mode: str, seed: int
) -> None:
    diary = a_diary(tables, table_type, mode, seed)
    theirs = HudiTableBuilder.from_base_uri(str(diary.table.location)).build()

    for at in diary.times[2:]:
        batches = theirs.read(HudiReadOptions().with_as_of_timestamp(at))
        rows = pa.Table.from_batches([pa.record_batch(one) for one in batches])
        their_rows = rows.select(READINGS.names).to_pylist()
        assert sorted(their_rows, key=lambda row: row["id"]) == read(diary.table, as_of=at)


def test_commit_that_began_first_and_ended_last_is_delivered_once(
    tables: ScenarioTables,
) -> None:
    """Bug A6: a checkpoint by request time would pass it over for ever."""
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    slow = table.writer("slow", mode="non-blocking").upsert(reading("a", 1))
    quick = table.writer("quick", mode="non-blocking").upsert_and_commit(reading("b", 1))
    checkpoint = quick.completed_at
    assert [row["id"] for row in read(table, since=EARLIEST, until=checkpoint)] == ["b"]

    slow.wins()

    assert [row["id"] for row in read(table, since=checkpoint)] == ["a"]
    assert [one[0] for one in changes(table, since=checkpoint)] == ["i"]


def test_window_of_a_late_event_opens_only_the_files_of_its_commit(tables: ScenarioTables) -> None:
    """An event of hour 09 that arrives at 10:20 is stored in partition 09."""
    table = tables(schema=READINGS, ordering=["ts"], partition_by=["place"])
    writer = table.writer("w")
    writer.upsert_and_commit(*(reading(key, 1) | {"place": hour} for key, hour in EVENTS))
    before = writer.upsert_and_commit(reading("d", 1) | {"place": "hour=10"})
    late = writer.upsert_and_commit(reading("late", 1) | {"place": "hour=09"})
    opened: list[str] = []

    def note(call: str, path: str) -> None:
        if call == "open_data":
            opened.append(path)

    watched = open_table(table.location, storage=WatchedStorage(table.location, before=note))
    rows = watched.read(since=before.completed_at).to_pylist()

    assert [(row["id"], row["place"]) for row in rows] == [("late", "hour=09")]
    assert {path.partition("/")[0] for path in opened} == {"hour=09"}
    assert set(opened) == {stat.path for stat in table.metadata(late.instant).stats}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_version_that_loses_is_no_change(tables: ScenarioTables, table_type: str) -> None:
    """Format page, gotcha 15: Apache Hudi shows the losing log row."""
    table = tables(table_type=table_type, schema=READINGS, ordering=["ts"])
    first = table.writer("w").upsert_and_commit(reading("a", 9))

    table.writer("w").upsert_and_commit(reading("a", 3), reading("b", 1))

    assert [row["id"] for row in read(table, since=first.completed_at)] == ["b"]
    assert [one[0] for one in changes(table, since=first.completed_at)] == ["i"]


def test_late_column_of_a_partial_table_is_a_change(tables: ScenarioTables) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    newest = {"id": "a", "place": "p", "ts": 5, "value": 1}
    writer = table.writer("w", mode="non-blocking")
    first = writer.upsert_and_commit(newest, reading("b", 5))
    late = {"id": "a", "place": "p", "ts": 5, "note": "late"}
    table.writer("v", mode="non-blocking").upsert_and_commit(late)

    [row] = read(table, since=first.completed_at)
    [(op, _, before, after)] = changes(table, since=first.completed_at)

    assert row == {**newest, "note": "late"} == after
    assert (op, before) == ("u", {**newest, "note": None})


def adding_values(older: pa.Table, newer: pa.Table) -> pa.Table:
    both: list[Any] = [older.column("value"), newer.column("value")]
    return newer.set_column(newer.column_names.index("value"), "value", pc.add(*both))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_late_version_that_a_merger_adds_is_a_change(
    tables: ScenarioTables, table_type: str
) -> None:
    """The row keeps the commit time of the version with the greatest ordering value."""
    register_merger("test-adding-values", adding_values)
    merging = {"hoodie.record.merge.mode": "CUSTOM", "sluice.record.merger": "test-adding-values"}
    table = tables(table_type=table_type, schema=READINGS, ordering=["ts"], options=merging)
    table.excuse_referee("hudi-rs does not know the merger")
    old = {"id": "a", "place": "p", "ts": 5, "value": 1, "note": ""}
    first = table.writer("w").upsert_and_commit(old, reading("b", 5))
    table.writer("w").upsert_and_commit(old | {"ts": 3, "value": 10})

    [row] = read(table, since=first.completed_at)
    [(op, _, before, after)] = changes(table, since=first.completed_at)

    assert row["value"] == 11
    assert (op, before, after) == ("u", old, row)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_read_optimized_is_the_base_files_alone(tables: ScenarioTables, table_type: str) -> None:
    table = tables(table_type=table_type, schema=READINGS, ordering=["ts"])
    first = table.writer("w").upsert_and_commit(reading("a", 1))
    table.writer("w").upsert_and_commit(reading("a", 2))

    [row] = read(table, query="read_optimized")

    assert row["ts"] == (1 if table_type == "MERGE_ON_READ" else 2)
    [row] = read(table, query="read_optimized", as_of=first.completed_at)
    assert row["ts"] == 1


def test_named_columns_come_in_their_order_meta_columns_too(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    first = table.writer("w").upsert_and_commit(reading("a", 1))
    second = table.writer("w").upsert_and_commit(reading("b", 1))
    columns = ["value", "_hoodie_commit_time"]

    snapshot = open_table(table.location).read(columns=columns)
    window = open_table(table.location).read(since=first.completed_at, columns=columns)

    assert snapshot.column_names == columns
    assert sorted(snapshot.column(1).to_pylist()) == [first.instant, second.instant]
    assert window.to_pylist() == [{"value": 0, "_hoodie_commit_time": second.instant}]


def reading(key: str, ts: int) -> Row:
    return {"id": key, "place": "p", "ts": ts, "value": 0, "note": ""}
