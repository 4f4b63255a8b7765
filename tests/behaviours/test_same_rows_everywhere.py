"""The same batches give the same rows on every table type and in every mode, as plain Python says.

Hudi answers differently for copy-on-write and merge-on-read (S3-03); here one merge function
serves both. Each case prints its seed.
"""

from __future__ import annotations

import random

import pytest

from tests.behaviours.setups import KINDS_AND_MODES
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables, schema_of
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback

SEEDS = range(6)
OPTIONS = write_options({})
KEYS = [f"k{n}" for n in range(12)]


def batches(seed: int) -> list[list[Row]]:
    """Late, repeated and equal events; the third batch brings a column, nulls are everywhere."""
    chance = random.Random(seed)
    all_batches = []
    for number in range(5):
        rows = []
        for _ in range(chance.randrange(1, 9)):
            key = chance.choice(KEYS)
            rows.append(
                {
                    "id": key,
                    "place": f"p{int(key[1:]) % 3}",
                    "ts": chance.choice([None, 1, 2, 3, 4]),
                    "value": chance.choice([None, *range(100)]),
                    "note": f"{number}",
                }
                | ({"unit": chance.choice("CF")} if number >= 2 else {})
            )
        all_batches.append(rows)
    return all_batches


def oracle(all_batches: list[list[Row]]) -> list[Row]:
    """The newest version of each key as a whole; null is oldest, of equals the later one stands."""
    newest: dict[str, Row] = {}
    for row in (row for batch in all_batches for row in batch):
        older = newest.get(row["id"])
        if older is None or (row["ts"] or 0) >= (older["ts"] or 0):
            newest[row["id"]] = row
    columns = [*READINGS.names, "unit"]
    return [{name: newest[key].get(name) for name in columns} for key in sorted(newest)]


def a_table(tables: ScenarioTables, table_type: str) -> ScenarioTable:
    return tables(
        table_type=table_type,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(("table_type", "mode"), KINDS_AND_MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_batches_one_after_the_other(
    tables: ScenarioTables, table_type: str, mode: str, seed: int
) -> None:
    table = a_table(tables, table_type)

    for rows in batches(seed):
        table.writer("w", mode=mode).upsert_and_commit(*rows, schema=schema_of())

    assert table.rows() == oracle(batches(seed)), f"seed={seed}"


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_base_files_and_logs_of_all_modes_mixed(tables: ScenarioTables, seed: int) -> None:
    chance = random.Random(seed)
    table = a_table(tables, "MERGE_ON_READ")

    for rows in batches(seed):
        mode = chance.choice(["single", "optimistic", "non-blocking"])
        table.writer("w", mode=mode).upsert_and_commit(*rows)

    assert table.rows() == oracle(batches(seed)), f"seed={seed}"


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("seed", SEEDS)
def test_dead_aborted_and_undone_writes_in_between_leave_no_trace(
    tables: ScenarioTables, table_type: str, seed: int
) -> None:
    chance = random.Random(seed)
    table = a_table(tables, table_type)
    kept = []

    for rows in batches(seed):
        writer = table.writer("w", mode="optimistic").upsert(*rows)
        match chance.choice(["keep", "keep", "die", "abort", "undo"]):
            case "die":
                writer.dies()
            case "abort":
                writer.abort()
            case "undo":
                committed = writer.wins()
                request = RollbackRequest(committed.instant, by="admin", reason="test")
                rollback(table.table, request, OPTIONS)
            case _:
                writer.wins()
                kept.append(rows)

    roll_back_dead_writers(table.table, OPTIONS)
    names = table.schema_columns()
    expected = [{name: row[name] for name in names} for row in oracle(kept)]
    assert table.rows() == expected, f"seed={seed}"
    assert table.orphan_files() == []
    assert table.leftovers() == []
