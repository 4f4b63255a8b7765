"""Tables of many columns: the work of writes, services and reads grows with the number of columns,
and not with its square.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.column_work import column_work
from tests.support.counted_calls import count_calls
from workers import create_table
from workers.lakehouse import LakehouseTable

_WRITE = {"hoodie.write.markers.type": "direct", "sluice.write.threads": "1"}
_SHAPES: dict[str, dict[str, Any]] = {
    "copy-on-write": {"kind": "COPY_ON_WRITE"},
    "merge-on-read": {},
    "partial updates": {"options": {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}},
    "columns with ages": {"group": {"granularity": "column"}},
    "columns by commit": {
        "group": {"granularity": "column", "on_late": "overwrite"},
        "default": 0.5,
    },
    "sums": {"group": {}, "aggregate": "sum"},
}


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.sampled(every=2)
def test_no_step_that_costs_as_much_as_a_schema_is_made_per_column(
    shape: str, tmp_path: Path
) -> None:
    few, many = (_measure(tmp_path / str(count), shape, count) for count in (6, 18))

    more = {place: (few[place], count) for place, count in many.items() if count > few[place]}
    assert not more


def test_calls_grow_with_the_columns_and_not_with_their_square(tmp_path: Path) -> None:
    def count_life(columns: int) -> int:
        folder = tmp_path / str(columns)
        return count_calls(lambda: _life(folder, "columns with ages", columns))[1]

    first, second, third = map(count_life, (8, 16, 32))

    assert third - second < 2.3 * (second - first)


def _measure(folder: Path, shape: str, count: int) -> Counter[str]:
    with column_work() as counts:
        _life(folder, shape, count)
    return counts


def _life(folder: Path, shape: str, count: int) -> None:
    """Everything that happens to a table, once."""
    names = [f"c{number}" for number in range(count)]
    table = _create(folder, shape, names)
    table.write(_rows(6, names, 1), operation="bulk_insert", options=_WRITE)
    for ts in (2, 3):
        table.write(_rows(3, names, ts), options=_WRITE)
    table.write(_rows(2, [*names, "later"], 4), options=_WRITE)
    table.delete(_rows(1, names, 5), options=_WRITE)
    assert table.read(columns=names).num_rows == 5
    assert table.read(where="c1 >= 0").num_columns == count + 3
    list(table.scan(names[1:], since="earliest", limit=2).to_batches())
    table.read(query="cdc", since="earliest")
    if shape != "copy-on-write":
        table.compact()
    table.cluster(["c1"])
    assert table.read().num_rows == 5


def _create(folder: Path, shape: str, names: list[str]) -> LakehouseTable:
    described = _SHAPES[shape]
    options = {"hoodie.bucket.index.num.buckets": "1", **described.get("options", {})}
    ordering = ["ts"]
    if "group" in described:
        group: dict[str, Any] = {"name": "g", "ordering": ["ts"], "columns": names}
        group |= described["group"]
        if "aggregate" in described:
            group["aggregates"] = dict.fromkeys(names, described["aggregate"])
        if "default" in described:
            group["defaults"] = dict.fromkeys(names, described["default"])
        options["hoodie.multistream.groups"] = json.dumps([group])
        ordering = []
    return create_table(
        folder,
        name="wide",
        schema=_rows(0, names, 1).schema,
        record_key=["id"],
        ordering=ordering,
        table_type=described.get("kind", "MERGE_ON_READ"),
        options=options,
    )


def _rows(count: int, names: list[str], ts: int) -> pa.Table:
    columns: dict[str, Any] = {
        "id": pa.array([f"k{number}" for number in range(count)], pa.string()),
        "ts": pa.array(np.full(count, ts)),
    }
    return pa.table(columns | {name: np.arange(count) + ts / 2 for name in names})
