"""Base rows that are not dead and added rows that are not dead are the merged slice."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.files.base_file import read_base_file
from workers.merge.rule import MergeRule
from workers.read.beside import SliceBeside, bits_of
from workers.read.file_slice import read_slice
from workers.read.snapshot import plan_snapshot
from workers.table.file_group import FileSlice

IGNORE_DEFAULTS = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("options", [{}, COMMIT_TIME, IGNORE_DEFAULTS], ids=str)
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_merge_beside_the_base_file_gives_the_merged_slice(
    tables: ScenarioTables, options: dict[str, str], seed: int, late: bool
) -> None:
    table = a_table(tables, options, seed, late)
    plan = plan_snapshot(table.table)
    assert plan.merged

    for slice_ in plan.merged:
        whole = read_slice(table.storage, table.table.config, plan.schema, slice_)
        expected = whole.select(READINGS.names).to_pylist()
        assert by_id(merged(table, slice_)) == by_id(expected), f"seed={seed}"


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_bits_say_of_every_position_what_the_mask_says(rows: int) -> None:
    chance = random.Random(rows)
    mask = np.array([chance.random() < 0.5 for _ in range(rows)], dtype=np.bool_)

    words = np.asarray(bits_of(mask).to_numpy())

    assert len(words) == -(-rows // 64)
    assert [bool(words[at >> 6] >> (at & 63) & 1) for at in range(rows)] == mask.tolist()


def merged(table: ScenarioTable, slice_: FileSlice) -> list[dict[str, Any]]:
    config, storage = table.table.config, table.storage
    plan = plan_snapshot(table.table)
    beside = SliceBeside(storage, config, plan.schema, MergeRule.of(config), slice_)
    assert slice_.base_file is not None
    base = read_base_file(storage, slice_.base_file).select(READINGS.names)
    parts = [base.filter(pa.array(~beside.dead())), beside.added(READINGS.names)]
    return pa.concat_tables(parts).to_pylist()


def a_table(
    tables: ScenarioTables, options: dict[str, str], seed: int, late: bool
) -> ScenarioTable:
    """With rows that come late, which may lose to the base file, or without."""
    chance = random.Random(seed)
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "2", **options},
    )
    table.excuse_referee("hudi-rs brings rows back that were deleted and written again")
    for number in range(6):
        keys = chance.sample(range(30), 12 if number else 30)
        ages = [chance.randrange(5) if late else 4 + number for _ in keys]
        rows = [
            {"id": f"k{key}", "place": "p", "ts": age, "value": number, "note": ""}
            for key, age in zip(keys, ages, strict=True)
        ]
        table.writer("w").upsert_and_commit(*rows)
        if number == 3:
            gone = table.batch([{"id": f"k{key}", "ts": 0} for key in chance.sample(range(30), 8)])
            table.lakehouse.delete(gone, options={"hoodie.write.markers.type": "direct"})
    return table


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))
