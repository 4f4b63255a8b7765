"""Tables whose keys are looked up in their file groups: updates go where the key stands, inserts
into small files and then into new ones, and no key ever stands twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.behaviours.setups import reading
from tests.scenarios.services import run
from tests.support.invariants import assert_keys_are_unique
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import EarlyConflict, InvalidInput
from workers.files.names import parse_bucket_number
from workers.lakehouse import open_table
from workers.options.index_kind import IndexKind
from workers.read.snapshot import read_snapshot
from workers.timeline.metadata import CommitMetadata

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
INDEXES = tuple(one.value for one in IndexKind if one.looks_up)
ALONE = {"hoodie.write.markers.type": "direct"}
TINY = {
    "hoodie.parquet.max.file.size": "10000",
    "hoodie.parquet.small.file.limit": "9000",
    "hoodie.copyonwrite.record.size.estimate": "1000",
}
"""Ten rows fill a file; a file of one row leaves room for some."""
SMALL = {"hoodie.index.bloom.num_entries": "8", "hoodie.index.bloom.fpp": "0.01"}
"""Filters that do not outweigh the rows."""
every_index = pytest.mark.parametrize("index", INDEXES)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_way = pytest.mark.parametrize(
    ("kind", "index"),
    [
        ("COPY_ON_WRITE", "SIMPLE"),
        ("MERGE_ON_READ", "BLOOM"),
        ("COPY_ON_WRITE", "GLOBAL_BLOOM"),
        ("MERGE_ON_READ", "GLOBAL_SIMPLE"),
    ],
)


@pytest.fixture
def made(tables: ScenarioTables) -> Any:
    def make(kind: str, index: str, **options: str) -> ScenarioTable:
        return tables(
            table_type=kind,
            schema=READINGS,
            ordering=["ts"],
            partition_by=["place"],
            options={"hoodie.index.type": index} | (SMALL if "BLOOM" in index else {}) | options,
        )

    return make


def write(
    table: ScenarioTable, rows: Sequence[Row], operation: str = "upsert", **options: str
) -> CommitMetadata:
    outcome = table.lakehouse.write(table.batch(rows), operation=operation, options=ALONE | options)
    assert isinstance(outcome, Committed)
    return table.metadata(outcome.instant)


def many(start: int, count: int, ts: int = 1, place: str = "oslo") -> list[Row]:
    return [reading(f"k{n:04}", ts, n, place) for n in range(start, start + count)]


def stats(metadata: CommitMetadata) -> Counter[str]:
    return Counter("log" if one.is_log else "base" for one in metadata.stats)


def values(table: ScenarioTable) -> dict[str, Any]:
    rows = read_snapshot(open_table(table.location).table, with_meta_columns=True)
    assert_keys_are_unique(rows)
    return {str(row["id"]): row["value"] for row in rows.to_pylist()}


@every_way
@pytest.mark.sampled(every=2)
def test_updates_go_where_the_key_stands(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    first = write(table, many(0, 30))

    second = write(table, [reading("k0003", 2, 99)])

    assert {one.file_id for one in second.stats} == {one.file_id for one in first.stats}
    assert stats(second) == {"base" if kind == "COPY_ON_WRITE" else "log": 1}
    assert values(table) == {f"k{n:04}": 99 if n == 3 else n for n in range(30)}


@every_kind
def test_file_groups_have_ids_that_no_bucket_has(made: Any, kind: str) -> None:
    table = made(kind, "SIMPLE")

    metadata = write(table, [*many(0, 25), *many(0, 5, place="rome")], **TINY)

    ids = [(one.partition_path, one.file_id) for one in metadata.stats]
    assert len(set(ids)) == len(ids) == 4
    assert len({file_id for _, file_id in ids}) == 4
    assert all(parse_bucket_number(file_id) is None for _, file_id in ids)
    assert all(file_id.endswith("-0") for _, file_id in ids)


def test_inserts_fill_the_small_file_and_then_new_ones(made: Any) -> None:
    table = made("COPY_ON_WRITE", "SIMPLE")
    [small] = write(table, many(0, 3), **TINY).stats

    metadata = write(table, many(3, 25), **TINY)

    by_id = {one.file_id: one.num_inserts for one in metadata.stats}
    room = (10_000 - small.bytes) // 1_000
    assert 0 < room < 8
    assert by_id.pop(small.file_id) == room
    assert sorted(by_id.values()) == sorted([10, 10, 5 - room] if room < 5 else [10, 15 - room])
    assert len(values(table)) == 28


def test_a_merge_on_read_table_pads_the_smallest_file_without_logs(made: Any) -> None:
    table = made("MERGE_ON_READ", "SIMPLE")
    [first] = write(table, many(0, 3), **TINY).stats
    [updated] = write(table, many(0, 1, ts=2), **TINY).stats  # It has a log now.

    [second] = write(table, many(10, 1), **TINY).stats
    [third] = write(table, many(20, 1), **TINY).stats
    both = write(table, [*many(10, 1, ts=2), *many(30, 1)], **TINY).stats

    assert updated.is_log
    assert updated.file_id == first.file_id
    assert second.file_id != first.file_id
    assert third.file_id == second.file_id
    assert not third.is_log
    # The update is in the file that is written anew for the insert.
    assert [one.file_id for one in both] == [second.file_id]
    assert not both[0].is_log
    assert (both[0].num_inserts, both[0].num_updates) == (1, 1)
    assert len(values(table)) == 6


def test_without_a_limit_for_small_files_every_insert_makes_a_file(made: Any) -> None:
    table = made("COPY_ON_WRITE", "BLOOM")
    options = {"hoodie.parquet.small.file.limit": "0"}
    first = write(table, many(0, 3), **options)

    second = write(table, many(3, 3), **options)

    assert {one.file_id for one in first.stats}.isdisjoint(one.file_id for one in second.stats)


def test_rows_are_not_taken_for_larger_by_the_filters_of_their_files(made: Any) -> None:
    table = made("COPY_ON_WRITE", "BLOOM", **dict.fromkeys(SMALL, ""))
    sizes = {
        "hoodie.parquet.max.file.size": "100000",
        "hoodie.parquet.small.file.limit": "1000",
    }
    [first] = write(table, many(0, 3), **sizes).stats

    second = write(table, many(3, 30), **sizes)

    assert first.bytes > 400_000
    assert [one.num_inserts for one in second.stats] == [30]


@every_way
@pytest.mark.sampled(every=2)
def test_bulk_insert_makes_files_of_the_target_size_and_sorts_across_them(
    made: Any, kind: str, index: str
) -> None:
    table = made(kind, index)
    write(table, many(50, 1), **TINY)
    rows = many(0, 30)[::-1]

    metadata = write(
        table, rows, "bulk_insert", **TINY, **{"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    )

    assert [one.num_inserts for one in metadata.stats] == [10, 10, 10]
    assert all(one.prev_commit == "null" for one in metadata.stats)
    assert len(values(table)) == 31


@every_way
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserting_a_known_key_doubles_it_under_no_policy(
    made: Any, kind: str, index: str, operation: str
) -> None:
    table = made(kind, index)
    write(table, many(0, 4))
    policy = "hoodie.datasource.insert.dup.policy"

    write(table, [*many(2, 1, ts=5), *many(8, 1)], operation)
    write(table, [reading("k0003", 9, 77), *many(9, 1)], operation, **{policy: "drop"})
    with pytest.raises(InvalidInput, match="already"):
        write(table, many(1, 1, ts=9), operation, **{policy: "fail"})

    assert values(table) == {f"k{n:04}": n for n in (0, 1, 2, 3, 8, 9)}


@every_way
@pytest.mark.sampled(every=2)
def test_deletes_by_key_and_by_predicate(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, [*many(0, 6), *many(6, 6, place="rome")])
    doomed = [{"id": "k0001", "place": "oslo"}, {"id": "k0007", "place": "rome"}]

    table.lakehouse.delete(pa.Table.from_pylist(doomed), options=ALONE)
    table.lakehouse.delete(predicate="value >= 4 AND value < 7", options=ALONE)
    table.lakehouse.delete(pa.Table.from_pylist([{"id": "zz", "place": "x"}]), options=ALONE)

    assert sorted(values(table)) == [f"k{n:04}" for n in (0, 2, 3, 8, 9, 10, 11)]
    write(table, many(1, 1, ts=9))  # A deleted key may come back.
    assert values(table)["k0001"] == 1


@every_way
@pytest.mark.sampled(every=2)
def test_marked_rows_of_unknown_keys_make_no_file(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, many(0, 2))
    rows = [
        reading("k0000", 2, 0) | {"_hoodie_is_deleted": True},
        reading("new", 2, 0) | {"_hoodie_is_deleted": True},
        reading("k0005", 2, 5) | {"_hoodie_is_deleted": False},
    ]

    write(table, rows)

    assert values(table) == {"k0001": 1, "k0005": 5}


@every_way
@pytest.mark.sampled(every=2)
def test_replacing_operations(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, [*many(0, 4), *many(4, 4, place="rome"), *many(8, 4, place="lima")])

    write(table, many(20, 2, place="rome"), "insert_overwrite")
    table.lakehouse.delete_partition([{"place": "lima"}], options=ALONE)
    assert sorted(values(table)) == [f"k{n:04}" for n in (0, 1, 2, 3, 20, 21)]

    write(table, many(30, 3, place="oslo"), "insert_overwrite_table")
    write(table, many(31, 3, ts=2))
    assert values(table) == {f"k{n:04}": n for n in (30, 31, 32, 33)}


@every_way
@pytest.mark.sampled(every=2)
def test_services_keep_keys_unique(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, [*many(0, 20), *many(20, 5, place="rome")], **TINY)
    write(table, [*many(3, 4, ts=2), *many(40, 2)], **TINY)
    sort = {"hoodie.clustering.plan.strategy.sort.columns": "value"}

    if kind == "MERGE_ON_READ":
        run(table, "compaction")
    run(table, "clustering", sort)
    write(table, [*many(0, 30, ts=3), *many(50, 2, ts=3)], **TINY)
    run(table, "clean", {"hoodie.clean.commits.retained": "1"})

    expected = {*range(30), 40, 41, 50, 51}
    assert values(table) == {f"k{n:04}": n for n in expected}


def test_a_key_that_only_a_log_holds_is_found(made: Any) -> None:
    """It was deleted and came back beside the compaction, whose base file lacks it."""
    table = made("MERGE_ON_READ", "SIMPLE")
    write(table, many(0, 3))
    table.lakehouse.delete(pa.Table.from_pylist([{"id": "k0001", "place": "oslo"}]), options=ALONE)
    run(table, "compaction", {"schedule_only": "true"})
    write(table, many(1, 1, ts=5))
    run(table, "compaction")

    write(table, [reading("k0001", 6, 66)])

    assert values(table) == {"k0000": 0, "k0001": 66, "k0002": 2}


@every_index
def test_schema_changes_reach_rows_of_every_file_group(made: Any, index: str) -> None:
    table = made("COPY_ON_WRITE", index)
    write(table, many(0, 12), **TINY)

    write(table, [many(1, 1, ts=2)[0] | {"unit": "C"}, many(40, 1)[0] | {"unit": "F"}], **TINY)

    units = {row["id"]: row["unit"] for row in table.rows("id", "unit")}
    assert {key: unit for key, unit in units.items() if unit} == {"k0001": "C", "k0040": "F"}
    assert len(units) == 13


@every_index
def test_non_blocking_writers_are_refused(made: Any, index: str) -> None:
    table = made("MERGE_ON_READ", index)

    with pytest.raises(InvalidInput, match="OPTIMISTIC_CONCURRENCY_CONTROL"):
        write(
            table,
            many(0, 1),
            **{"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
        )

    assert len(table.instants()) == 1


@every_way
@pytest.mark.sampled(every=2)
def test_two_writers_that_update_one_file_group_conflict(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, many(0, 4))
    slow, fast = table.writer("slow"), table.writer("fast")
    slow.upsert(*many(0, 1, ts=2))

    fast.upsert_and_commit(*many(1, 1, ts=2))

    assert slow.loses().rival == fast.last_instant


@every_way
@pytest.mark.sampled(every=2)
def test_a_writer_in_vain_stops_early_at_the_file_group_that_it_looked_up(
    made: Any, kind: str, index: str
) -> None:
    early = {
        "hoodie.write.concurrency.early.conflict.detection.enable": "true",
        "hoodie.write.concurrency.early.conflict.check.commit.conflict": "true",
    }
    table = made(kind, index)
    [file_id] = {one.file_id for one in write(table, many(0, 4)).stats}
    slow, fast = table.writer("slow", options=early), table.writer("fast", options=early)
    slow.begin(READINGS)
    fast.upsert_and_commit(*many(1, 1, ts=2))

    with pytest.raises(EarlyConflict):
        slow.write(*many(2, 1, ts=2), *many(9, 1))

    outcome = slow.transaction.lose_early()
    assert isinstance(outcome, Conflicted)
    assert outcome.conflict.file_groups == (("oslo", file_id),)
    assert table.orphan_files() == table.leftovers() == []
