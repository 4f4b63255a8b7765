"""Base rows that are not dead and added rows that are not dead are the merged slice."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.files.base_file import read_base_file
from workers.merge.merge import MergeRule
from workers.read.beside import ADDRESS, POSITION_BITS, SliceBeside, file_number
from workers.read.file_slice import read_slice
from workers.read.snapshot import plan_snapshot
from workers.table.file_group import FileSlice

IGNORE_DEFAULTS = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


@pytest.mark.parametrize("options", [{}, COMMIT_TIME, IGNORE_DEFAULTS], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_merge_beside_the_base_file_gives_the_merged_slice(
    tables: ScenarioTables, options: dict[str, str], seed: int
) -> None:
    table = a_table(tables, options, seed)
    plan = plan_snapshot(table.table)
    assert plan.merged

    for number, slice_ in enumerate(plan.merged):
        whole = read_slice(table.storage, table.table.config, plan.schema, slice_)
        expected = whole.select(READINGS.names).to_pylist()
        assert by_id(merged(table, slice_, number)) == by_id(expected), f"seed={seed}"


def merged(table: ScenarioTable, slice_: FileSlice, number: int) -> list[dict[str, Any]]:
    config, storage = table.table.config, table.storage
    plan = plan_snapshot(table.table)
    beside = SliceBeside(storage, config, plan.schema, MergeRule.of(config), slice_, number)
    dead = set(beside.dead().tolist())
    assert slice_.base_file is not None
    base = read_base_file(storage, slice_.base_file).select(READINGS.names)
    first = file_number(slice_.base_file) << POSITION_BITS
    addresses = pa.array(np.arange(base.num_rows) + first, pa.int64())
    field = pa.field(ADDRESS, pa.int64(), nullable=False)
    added = beside.added(READINGS.names)
    rows = pa.concat_tables([base.append_column(field, addresses), added]).to_pylist()
    return [row for row in rows if row.pop(ADDRESS) not in dead]


def a_table(tables: ScenarioTables, options: dict[str, str], seed: int) -> ScenarioTable:
    chance = random.Random(seed)
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "2", **options},
    )
    table.excuse_referee("hudi-rs brings rows back that were deleted and written again")
    for number in range(6):
        rows = [
            {"id": f"k{key}", "place": "p", "ts": chance.randrange(5), "value": number, "note": ""}
            for key in chance.sample(range(30), 12 if number else 30)
        ]
        table.writer("w").upsert_and_commit(*rows)
        if number == 3:
            gone = table.batch([{"id": f"k{key}", "ts": 0} for key in chance.sample(range(30), 8)])
            table.lakehouse.delete(gone, options={"hoodie.write.markers.type": "direct"})
    return table


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))
