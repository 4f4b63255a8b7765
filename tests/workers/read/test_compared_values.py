"""Tables with partial updates compare rows by value to find what is new: with NaN and -0.0, also
inside lists, structs and maps.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers.read.comparison import differs

FIELDS = pa.struct([("x", pa.float64())])
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "double": (pa.float64(), math.nan),
    "single": (pa.float32(), math.nan),
    "list": (pa.list_(pa.float64()), [1.0, math.nan]),
    "struct": (FIELDS, {"x": math.nan}),
    "map": (pa.map_(pa.string(), pa.float64()), [("k", math.nan)]),
}


def made(tables: ScenarioTables, kind: pa.DataType) -> ScenarioTable:
    return tables(
        schema=schema_of(id=pa.string(), ts=pa.int64(), value=kind, note=pa.string()),
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "hoodie.bucket.index.num.buckets": "1",
        },
    )


@pytest.mark.parametrize("name", TYPES)
def test_an_unchanged_row_that_holds_nan_is_not_delivered_again(
    tables: ScenarioTables, name: str
) -> None:
    kind, value = TYPES[name]
    table = made(tables, kind)
    first = {"id": "a", "ts": 1, "value": value, "note": "first"}
    since = table.writer("first").upsert_and_commit(first).completed_at

    table.lakehouse.write(table.batch([{"id": "b", "ts": 1, "value": None, "note": "second"}]))

    assert table.lakehouse.read(since=since)["id"].to_pylist() == ["b"]
    changes = table.lakehouse.read(query="cdc", since=since).to_pylist()
    assert [(one["op"], one["after"]["id"]) for one in changes] == [("i", "b")]


def test_a_zero_that_becomes_negative_is_a_change(tables: ScenarioTables) -> None:
    table = made(tables, pa.float64())
    row = {"id": "a", "ts": 1, "value": 0.0, "note": "x"}
    since = table.writer("first").upsert_and_commit(row).completed_at

    table.lakehouse.write(table.batch([{**row, "value": -0.0}]))

    (delivered,) = table.lakehouse.read(since=since).to_pylist()
    assert math.copysign(1, delivered["value"]) == -1
    (change,) = table.lakehouse.read(query="cdc", since=since).to_pylist()
    assert (change["op"], str(change["before"]["value"])) == ("u", "0.0")


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_differ_by_value_and_sign(kind: pa.DataType) -> None:
    values = [None, math.nan, 0.0, -0.0, 1.5]
    pairs = [(left, right) for left in values for right in values]
    left, right = (pa.array([pair[at] for pair in pairs], kind) for at in (0, 1))

    different = differs(left, right).to_pylist()

    assert different == [repr(one) != repr(other) for one, other in pairs]
