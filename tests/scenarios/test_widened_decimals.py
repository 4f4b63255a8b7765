"""An ordering column of decimals gets more whole digits: rows of both types compete by their
values, in every reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest

from tests.scenarios.test_widened_ordering import IDS, KINDS, alter, made, type_of
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.widened_ordering import (
    DECIMALS_LEFT,
    FAR,
    FIRST,
    NARROW_DECIMALS,
    NEWER,
    WIDE_DECIMAL_ROWS,
    WIDE_DECIMALS,
    decimal_row,
    upsert,
)
from workers.lakehouse import open_table
from workers.schema.alter import WidenColumn


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("table_type", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize("by_alter", [False, True], ids=["by a batch", "by alter"])
def test_decimals_get_more_whole_digits(
    tables: ScenarioTables, table_type: str, options: Mapping[str, str], by_alter: bool
) -> None:
    table = decimals(tables, table_type)
    if by_alter:
        alter(table, WidenColumn("ts", WIDE_DECIMALS.field("ts").type))

    upsert(table, WIDE_DECIMAL_ROWS, WIDE_DECIMALS, options=options).wins()

    assert type_of(table) == WIDE_DECIMALS.field("ts").type
    assert cities(table) == DECIMALS_LEFT
    table.assert_referee_agrees()
    if table_type == "MERGE_ON_READ":
        open_table(table.location).compact()
        assert cities(table) == DECIMALS_LEFT
        table.assert_referee_agrees()
    late = [{"id": 4, "ts": Decimal(FAR - 1), "city": "older"}]
    upsert(table, late, WIDE_DECIMALS, options=options).wins()
    assert cities(table) == DECIMALS_LEFT


def test_writer_of_narrow_decimals_commits_under_the_wider_ones(tables: ScenarioTables) -> None:
    table = decimals(tables, "MERGE_ON_READ")
    narrow = upsert(table, [decimal_row(7, 30, "narrow")], NARROW_DECIMALS, mode="non-blocking")
    wide = [*WIDE_DECIMAL_ROWS, decimal_row(7, 29, "late")]
    upsert(table, wide, WIDE_DECIMALS, mode="non-blocking").wins()

    narrow.wins()

    assert type_of(table) == WIDE_DECIMALS.field("ts").type
    assert cities(table) == DECIMALS_LEFT | {7: "narrow"}
    table.assert_referee_agrees()


def decimals(tables: ScenarioTables, table_type: str) -> ScenarioTable:
    table = made(tables, table_type, NARROW_DECIMALS)
    rows = [decimal_row(key, FIRST, "first") for key in range(1, 9)]
    upsert(table, rows, NARROW_DECIMALS).wins()
    upsert(table, [decimal_row(1, NEWER, "narrow")], NARROW_DECIMALS).wins()
    return table


def cities(table: ScenarioTable) -> dict[int, str]:
    return {one["id"]: one["city"] for one in table.rows()}
