"""Bugs of other engines' log merging (group H of docs/regressions.md), each as its script says."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from tests.support.scenario_table import (
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
)
from tests.support.table_services import run
from tests.workers.merge.oracle import KEY, merged_rows
from tests.workers.read.layouts import CONFIGS, SCHEMA, Layout, keyed
from workers.files.base_file import write_base_parts
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.read.file_slice import merge_slice_batches, read_slice
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table.file_group import FileSlice
from workers.timeline.pending_plans import pending_plan_files

DIRECT = {"hoodie.write.markers.type": "direct"}
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}


@pytest.mark.parametrize(
    "layouts",
    [6, pytest.param(50_000, marks=[pytest.mark.soak, pytest.mark.timeout(0)])],
    ids=["short", "soak"],
)
def test_h1_count_and_rows_are_the_same_before_and_after_compaction(layouts: int) -> None:
    """Random logs of rows, narrow rows and deletes, in Avro and in Parquet, of three kinds."""
    configs = list(CONFIGS.values())
    for seed in range(10_000, 10_000 + layouts):
        layout = Layout(configs[seed % len(configs)], seed)
        layout.write_base()
        for number in range(layout.chance.randint(1, 6)):
            layout.write_log(number)
        before = keyed(read_slice(layout.storage, layout.config, SCHEMA, layout.slice))

        batches = merge_slice_batches(layout.storage, layout.config, SCHEMA, layout.slice)
        parts = [pa.Table.from_batches([batch]) for batch in batches]

        assert before == layout.wanted(), f"seed={seed}"
        if parts:
            avro = SCHEMA.with_meta_avro()
            write_base_parts(layout.storage, "compacted.parquet", parts, avro_schema=avro)
            compacted = FileSlice("", "f", "20270101000000000", "compacted.parquet")
            assert keyed(read_slice(layout.storage, layout.config, SCHEMA, compacted)) == before
        else:
            assert before == {}, f"seed={seed}"


@pytest.mark.parametrize("seed", range(2))
def test_h2_every_log_is_compacted_once_by_the_first_plan_after_its_completion(
    tables: ScenarioTables, seed: int
) -> None:
    """Writers begin and complete in any order around plans that run late: none lost, none twice."""
    chance = random.Random(seed)
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"], options=ONE_BUCKET)
    begun: list[ScenarioWriter] = []
    due: set[str] = set()
    planned: list[frozenset[str]] = []
    for number in range(10):
        writer = table.writer(f"w{number}", mode="non-blocking")
        begun.append(writer.upsert(reading(f"k{number}", number, number)))
        if chance.random() < 0.7:
            done = begun.pop(chance.randrange(len(begun)))
            due |= {path for path in table.data_files() if done.wins().instant in path}
        if chance.random() < 0.4:
            run(table.table, "compaction", schedule_only="true")
            plans = pending_plan_files(table.storage, table.table.timeline())
            for files in plans.values():
                planned.append(frozenset(path for path in files if ".log." in path))
                assert planned[-1] == due, f"seed={seed}"
                due = set()
            if plans and chance.random() < 0.5:
                begun.append(table.writer("beside", mode="non-blocking"))
                begun[-1].upsert(reading("beside", number, number))
            run(table.table, "compaction")
    for writer in begun:
        writer.wins()

    assert planned
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(planned, 2))
    ids = {row["id"] for row in table.rows()}
    assert ids >= {f"k{number}" for number in range(10)}


def reading(key: str, ts: int, value: int | None) -> Row:
    return {"id": key, "place": "p", "ts": ts, "value": value, "note": ""}


PARTIAL = ONE_BUCKET | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
FOLDS_LOGS_FIRST = "hudi-rs folds the logs, or a block, before it looks at the base file"


@pytest.mark.parametrize("order", [1, -1], ids=["older-first", "younger-first"])
@pytest.mark.parametrize("size", [2, 1], ids=["one-batch", "two-batches"])
@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["logs", "compacted"])
def test_h3_partial_rows_of_different_ages_give_one_row_however_they_are_batched(
    tables: ScenarioTables, mode: str, size: int, order: int, is_compacted: bool
) -> None:
    """The documented pair: base (1000, 10), updates (999, 11) and (1001, null): always 10."""
    table = partial_table(tables)
    if not is_compacted:
        table.excuse_referee(FOLDS_LOGS_FIRST)
    table.writer("base").upsert_and_commit(reading("k", 1000, 10))
    if mode == "non-blocking":
        run(table.table, "compaction")  # Only then the row to update is a base file's.
    updates = [reading("k", 999, 11), reading("k", 1001, None)][::order]

    for at in range(0, 2, size):
        table.writer(f"w{at}", mode=mode).upsert_and_commit(*updates[at : at + size])
    if is_compacted:
        run(table.table, "compaction")

    assert table.rows() == [reading("k", 1001, 10)]


@pytest.mark.parametrize("size", [2, 1], ids=["one-batch", "two-batches"])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["logs", "compacted"])
def test_h3_row_after_a_delete_begins_afresh_in_the_same_batch_too(
    tables: ScenarioTables, size: int, is_compacted: bool
) -> None:
    table = partial_table(tables)
    if not is_compacted:
        table.excuse_referee("hudi-rs brings values back that were deleted")
    table.writer("base").upsert_and_commit(reading("k", 1000, 10))
    updates = [
        reading("k", 1001, None) | {"_hoodie_is_deleted": True},
        reading("k", 1002, None) | {"_hoodie_is_deleted": False},
    ]

    for at in range(0, 2, size):
        table.writer(f"w{at}").upsert_and_commit(*updates[at : at + size])
    if is_compacted:
        run(table.table, "compaction")

    assert table.rows() == [reading("k", 1002, None)]


def partial_table(tables: ScenarioTables) -> ScenarioTable:
    return tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"], options=PARTIAL)


FIRST: dict[str, pa.DataType] = {"id": pa.string(), "a": pa.int64(), "ts": pa.int64()}
LATER: dict[str, pa.DataType] = {
    "extra": pa.int64(),
    "ts": pa.int64(),
    "a": pa.int64(),
    "id": pa.string(),
}
"""The ordering column stands elsewhere, and another number stands in its old place."""


def test_h5_one_batch_many_batches_logs_and_base_files_choose_the_same_row() -> None:
    chance = random.Random(5)
    versions = [
        {"id": chance.choice("abc"), "ts": chance.randrange(9), "a": number, "extra": -number}
        for number in range(12)
    ]
    for version in versions[:4]:
        version["extra"] = None
    wanted = merged_rows(
        [{KEY: one["id"], **one} for one in versions], orders=True, is_partial=False
    )
    expected = {key: (row["ts"], row["a"], row["extra"]) for key, row in wanted.items()}

    for table_type, mode, is_compacted in (
        ("COPY_ON_WRITE", "OPTIMISTIC_CONCURRENCY_CONTROL", False),
        ("MERGE_ON_READ", "OPTIMISTIC_CONCURRENCY_CONTROL", False),
        ("MERGE_ON_READ", "NON_BLOCKING_CONCURRENCY_CONTROL", False),
        ("MERGE_ON_READ", "NON_BLOCKING_CONCURRENCY_CONTROL", True),
    ):
        for size in (1, 8):
            table = made(table_type)
            for start, end in ((0, 4), (4, 12)):
                for at in range(start, end, size):
                    rows = versions[at : min(at + size, end)]
                    batch = batch_of(rows, FIRST if start == 0 else LATER)
                    options = DIRECT | {"hoodie.write.concurrency.mode": mode}
                    table.write(batch, options=options)
                if is_compacted:
                    table.compact(options=DIRECT)
            cells_of_key = {
                row["id"]: (row["ts"], row["a"], row["extra"]) for row in rows_of(table)
            }
            assert cells_of_key == expected, (table_type, mode, size)


def made(table_type: str) -> LakehouseTable:
    clock = StillClock()
    storage = MemoryStorage(clock)
    return create_table(
        storage.location,
        name="t",
        schema=pa.schema(FIRST),
        record_key=["id"],
        ordering=["ts"],
        table_type=table_type,
        options=ONE_BUCKET,
        ports=still_ports(clock, prefix="t"),
        storage=storage,
    )


def batch_of(rows: list[Row], types: dict[str, pa.DataType]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in types}
    return pa.table(columns, schema=pa.schema(types))


def rows_of(table: LakehouseTable) -> list[dict[str, Any]]:
    snapshot: pa.Table = table.read()
    return snapshot.to_pylist()


@pytest.mark.parametrize(
    ("table_type", "mode"),
    [
        ("COPY_ON_WRITE", "optimistic"),
        ("MERGE_ON_READ", "optimistic"),
        ("MERGE_ON_READ", "non-blocking"),
    ],
)
def test_h7_first_inserts_into_an_empty_bucket_make_one_file_group_whoever_of_them_fails(
    tables: ScenarioTables, table_type: str, mode: str
) -> None:
    table = tables(table_type=table_type, options=ONE_BUCKET)
    writers = [
        table.writer(f"w{number}", mode=mode).upsert({"id": number, "city": "x"})
        for number in range(6)
    ]
    writers[0].dies()
    writers[1].abort()
    committed = []
    for number in (4, 2, 3, 5):
        outcome = writers[number].commit()
        if type(outcome).__name__ == "Committed":
            committed.append(number)
    roll_back_dead_writers(table.table, write_options({}))
    table.writer("next", mode=mode).upsert_and_commit({"id": 9, "city": "x"})

    [group] = table.lakehouse.file_groups()

    assert all(group.file_id in path for path in table.data_files())
    assert committed == ([4, 2, 3, 5] if mode == "non-blocking" else [4])
    assert [row["id"] for row in table.rows()] == sorted([*committed, 9])
    assert table.orphan_files() == []
