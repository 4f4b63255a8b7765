"""The first rows in the order of a column, whatever the batches."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from workers.errors import InvalidInput
from workers.read import sorted_rows
from workers.read.sorted_rows import RowOrder, check_order, first_rows

COLUMNS: dict[str, Any] = {
    "n": pa.int64(),
    "value": pa.float64(),
    "parts": pa.list_(pa.int64()),
}
SCHEMA = pa.schema(COLUMNS)


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 50, 500])
def test_first_rows_are_those_of_a_whole_stable_sort(
    rows: int, is_descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_rows, "_SORTED_TOGETHER", 10)
    generator = random.Random(f"{rows} {is_descending}")
    values: list[Any] = [
        generator.choice([None, math.nan, float(generator.randrange(9)), -math.inf])
        for _ in range(200)
    ]
    table = pa.table(
        [
            pa.array(range(200)),
            pa.array(values, from_pandas=False),
            pa.nulls(200, SCHEMA.field("parts").type),
        ],
        schema=SCHEMA,
    )

    first = first_rows(
        table.to_batches(max_chunksize=9), SCHEMA, RowOrder("value", is_descending), rows
    )

    def rank(at: int) -> tuple[int, float]:
        value = values[at]
        if value is None:
            return 2, 0
        return (1, 0) if math.isnan(value) else (0, -value if is_descending else value)

    assert first.column("n").to_pylist() == sorted(range(200), key=rank)[:rows]


def test_nested_and_unknown_columns_have_no_order() -> None:
    for name, words in (("parts", "no order"), ("town", "no such column")):
        with pytest.raises(InvalidInput, match=words):
            check_order(RowOrder(name), SCHEMA)
