"""Two writers insert one new key at the same time, under an index that looks keys up: each would
put it into a file group of its own, and it would stand in the table twice.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.support.counted_storage import CountedStorage
from tests.scenarios.services import run
from tests.support.invariants import assert_keys_are_unique
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.conflicts import Conflict
from workers.concurrency.outcome import Committed
from workers.lakehouse import open_table
from workers.options.index_kind import IndexKind
from workers.read.snapshot import read_snapshot

pytestmark = pytest.mark.sampled(every=2)

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
LOCAL = ("SIMPLE", "BLOOM")
GLOBAL = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")
SMALL = {"hoodie.index.bloom.num_entries": "50", "hoodie.index.bloom.fpp": "0.001"}
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
ALONE = {"hoodie.write.markers.type": "direct"}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_index = pytest.mark.parametrize("index", LOCAL + GLOBAL)


def table_maker(tables: ScenarioTables) -> Any:
    """Return what makes a table of readings by its index and kind."""

    def make(index: str, kind: str = "COPY_ON_WRITE") -> ScenarioTable:
        options = {"hoodie.index.type": index}
        if IndexKind(index).has_filters:
            options |= SMALL
        return tables(
            table_type=kind,
            schema=READINGS,
            ordering=["ts"],
            partition_by=["place"],
            options=options,
        )

    return make


made = pytest.fixture(table_maker)


def row(key: str, value: int, place: str = "oslo", ts: int = 1) -> Row:
    return {"id": key, "place": place, "ts": ts, "value": value, "note": None}


def rows_of(table: ScenarioTable) -> dict[tuple[str, str], int]:
    """(partition, key) -> value; no key is there twice."""
    snapshot = read_snapshot(open_table(table.location).table, with_meta_columns=True)
    assert_keys_are_unique(snapshot)
    return {(one["place"], one["id"]): one["value"] for one in snapshot.to_pylist()}


def lost(table: ScenarioTable, ours: list[Row], theirs: list[Row]) -> Conflict:
    """Of a slow writer with `ours`, beside whom a fast one commits `theirs`."""
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(*ours)
    fast.upsert_and_commit(*theirs)
    return slow.loses()


@every_kind
@every_index
def test_the_second_to_insert_a_key_loses_to_the_first(made: Any, kind: str, index: str) -> None:
    table = made(index, kind)
    table.writer("setup").upsert_and_commit(row("a", 0))

    conflict = lost(table, [row("n", 1), row("o", 1)], [row("m", 2), row("n", 2), row("q", 2)])

    assert (conflict.kind, conflict.rule) == ("write", "inserted_twice")
    assert (conflict.keys, conflict.key_count) == (("n",), 1)
    assert (conflict.writer, conflict.rival_writer) == ("slow", "fast")
    assert conflict.message == "1 new key(s) were inserted by another writer first"
    assert [partition for partition, _ in conflict.file_groups] == ["oslo"]
    assert rows_of(table) == {("oslo", key): n for key, n in zip("amnq", (0, 2, 2, 2), strict=True)}
    assert table.orphan_files() == []


@every_index
def test_the_loser_tries_again_and_updates_what_it_wanted_to_insert(made: Any, index: str) -> None:
    table = made(index)
    fast = table.writer("fast", options=NEW_FILES)
    beside = At("create_data", ".parquet", lambda: fast.upsert_and_commit(row("n", 2, ts=2)))
    slow = open_table(table.location, storage=WatchedStorage(table.location, before=beside))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    outcome = slow.write(table.batch([row("n", 3, ts=3)]), options=ALONE | NEW_FILES | retries)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert rows_of(table) == {("oslo", "n"): 3}


@every_index
def test_writers_that_insert_different_keys_both_commit(made: Any, index: str) -> None:
    table = made(index)
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("a", 1), row("c", 1), row("e", 1))

    fast.upsert_and_commit(row("b", 2), row("d", 2))
    slow.wins()

    assert set(rows_of(table)) == {("oslo", key) for key in "abcde"}


@pytest.mark.parametrize("index", LOCAL)
def test_one_key_may_be_inserted_into_two_partitions(made: Any, index: str) -> None:
    table = made(index)
    slow, fast = table.writer("slow"), table.writer("fast")
    slow.upsert(row("n", 1, "oslo"))

    fast.upsert_and_commit(row("n", 2, "rome"))
    slow.wins()

    assert rows_of(table) == {("oslo", "n"): 1, ("rome", "n"): 2}


@every_kind
@pytest.mark.parametrize("index", GLOBAL)
def test_under_a_global_index_partitions_do_not_keep_writers_apart(
    made: Any, kind: str, index: str
) -> None:
    table = made(index, kind)

    conflict = lost(table, [row("n", 1, "oslo")], [row("n", 2, "rome")])

    assert (conflict.rule, conflict.keys) == ("inserted_twice", ("n",))
    assert rows_of(table) == {("rome", "n"): 2}


@every_index
@pytest.mark.parametrize("padding", ["slow", "fast"])
@pytest.mark.parametrize("theirs", ["n", "o"])
def test_a_key_is_met_in_a_small_file_that_took_it(
    made: Any, index: str, padding: str, theirs: str
) -> None:
    """One of the two pads the standing file, which the other does not touch."""
    table = made(index)
    table.writer("setup").upsert_and_commit(row("a", 0), row("b", 0))
    options = {name: {} if name == padding else NEW_FILES for name in ("slow", "fast")}
    slow = table.writer("slow", options=options["slow"])
    fast = table.writer("fast", options=options["fast"])
    updated = {name: [row("a", 3, ts=3)] if name == padding else [] for name in options}
    slow.upsert(row("n", 1), *updated["slow"])

    fast.upsert_and_commit(row(theirs, 2), *updated["fast"])

    if theirs == "n":
        conflict = slow.loses()
        assert (conflict.rule, conflict.keys) == ("inserted_twice", ("n",))
        assert rows_of(table)[("oslo", "n")] == 2
    else:
        slow.wins()
        keys = {"a": 3, "b": 0, "n": 1, "o": 2}
        assert rows_of(table) == {("oslo", key): value for key, value in keys.items()}


@pytest.mark.parametrize("index", GLOBAL)
def test_a_key_is_met_where_a_row_has_moved_to(made: Any, index: str) -> None:
    """The fast writer takes `n` to oslo and moves it on; the slow one has not seen it anywhere."""
    table = made(index)
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("n", 1, "lima"))
    fast.upsert_and_commit(row("n", 2, "oslo"))
    fast.upsert_and_commit(row("n", 3, "rome", ts=2))

    conflict = slow.loses()

    assert (conflict.rule, conflict.keys) == ("inserted_twice", ("n",))
    assert rows_of(table) == {("rome", "n"): 3}


@every_index
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
def test_whatever_brings_the_key_is_compared(made: Any, index: str, operation: Any) -> None:
    table = made(index)
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("n", 1))
    fast.upsert(row("n", 2), operation=operation).wins()

    conflict = slow.loses()

    assert conflict.rule == "inserted_twice"
    assert rows_of(table) == {("oslo", "n"): 2}


@every_kind
@every_index
def test_services_that_move_rows_meet_nobody_who_inserts(made: Any, kind: str, index: str) -> None:
    table = made(index, kind)
    table.writer("setup").upsert_and_commit(row("a", 0), row("z", 0))
    if kind == "MERGE_ON_READ":
        table.writer("setup").upsert_and_commit(row("a", 1, ts=2))
    slow = table.writer("slow", options=NEW_FILES)
    slow.upsert(row("n", 1))

    if kind == "MERGE_ON_READ":
        run(table, "compaction")
    run(table, "clustering", {"hoodie.clustering.plan.strategy.sort.columns": "value"})
    slow.wins()

    assert set(rows_of(table)) == {("oslo", key) for key in "anz"}


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_BLOOM"])
def test_a_file_that_is_gone_is_no_proof_that_nothing_was_inserted_twice(
    tmp_path: Path, index: str
) -> None:
    """Another engine cleaned the file that took the key; the key stands in its successor."""
    table = ScenarioTable(
        tmp_path / "cleaned", schema=READINGS, ordering=["ts"], options={"hoodie.index.type": index}
    )
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("n", 1))
    first = fast.upsert_and_commit(row("n", 2)).instant
    fast.upsert_and_commit(row("n", 3, ts=3))
    [gone] = table.metadata(first).stats
    table.storage.delete(gone.path)

    conflict = slow.loses()

    assert (conflict.rule, conflict.key_count) == ("inserted_twice", 0)
    assert "cannot be read" in conflict.message
    assert {one["value"] for one in table.rows()} == {3}


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE"])
def test_of_four_writers_that_draw_from_the_same_keys_none_leaves_one_twice(
    made: Any, index: str
) -> None:
    table = made(index)
    retries = {"hoodie.write.num.retries.on.conflict.failures": "100"}
    mode = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    given = ALONE | NEW_FILES | retries | mode

    def write(writer: int) -> dict[str, int]:
        chance = random.Random(writer)
        value_of_key: dict[str, int] = {}
        for turn in range(4):
            keys = chance.sample(range(24), 6)
            rows = [row(f"k{key}", 4 * turn + writer, ts=4 * turn + writer) for key in keys]
            opened = open_table(table.location)
            assert isinstance(opened.write(table.batch(rows), options=given), Committed)
            value_of_key |= {f"k{key}": 4 * turn + writer for key in keys}
        return value_of_key

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(write, range(4)))

    newest = {key: max(one.get(key, -1) for one in written) for key in set().union(*written)}
    assert rows_of(table) == {("oslo", key): value for key, value in newest.items()}


@pytest.mark.parametrize("index", ["BUCKET", "BLOOM", "GLOBAL_SIMPLE"])
def test_a_commit_reads_no_data_file_unless_a_rival_inserted_beside_it(
    tables: ScenarioTables, index: str
) -> None:
    buckets = {"hoodie.bucket.index.num.buckets": "64"} if index == "BUCKET" else {}
    table = tables(
        schema=READINGS,
        partition_by=["place"],
        ordering=["ts"],
        options={"hoodie.index.type": index} | buckets,
    )
    fast = table.writer("fast", options=NEW_FILES)
    fast.upsert_and_commit(row("k1", 0, "rome"))
    storage = CountedStorage(Path(table.location))
    slow = table.writer("slow", options=NEW_FILES, storage=storage)
    slow.upsert(row("k2", 1))
    fast.upsert_and_commit(row("k1", 1, "rome", ts=2))  # An update: it brings no key.
    if index != "GLOBAL_SIMPLE":
        fast.upsert_and_commit(row("k3", 1, "rome"))
    storage.calls.clear()

    slow.wins()

    assert storage.calls["open_data"] == 0
    assert len(rows_of(table)) == (2 if index == "GLOBAL_SIMPLE" else 3)


def test_writers_of_a_bucket_still_meet_by_its_file_group(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, partition_by=["place"], ordering=["ts"])

    conflict = lost(table, [row("n", 1)], [row("n", 2)])

    assert conflict.rule == "overlapping_file_groups"
    assert (conflict.keys, conflict.key_count) == ((), 0)


def test_of_many_keys_a_conflict_names_a_few_and_counts_all(made: Any) -> None:
    table = made("BLOOM")
    many = [row(f"k{number:03}", 1) for number in range(60)]

    conflict = lost(table, many[20:], many[:50])

    assert conflict.key_count == 30
    assert conflict.keys == tuple(f"k{number:03}" for number in range(20, 30))
    assert conflict.message.startswith("30 new key(s)")
