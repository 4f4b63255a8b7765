"""The orders of a clustered file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.table_services.row_order import (
    RowOrder,
    check_order,
    compute_z_values,
    sort_into_places,
    sort_positions,
    sort_rows,
)


def _table(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_linear_order_goes_by_the_columns_in_turn_with_nulls_first() -> None:
    rows = _table(a=[2, 1, None, 1, 2], b=["x", "z", "q", None, "a"], n=[0, 1, 2, 3, 4])

    assert sort_rows(rows, RowOrder(("a", "b"))).column("n").to_pylist() == [2, 3, 1, 4, 0]


def test_equal_rows_keep_their_order() -> None:
    rows = _table(a=[1, 1, 0, 1], n=[0, 1, 2, 3])

    for layout in ("linear", "z-order"):
        order = RowOrder(("a",), layout)
        assert sort_rows(rows, order).column("n").to_pylist() == [2, 0, 1, 3]


def test_z_curve_visits_the_four_quarters_one_after_the_other() -> None:
    side = 8
    rows = _table(
        x=[n // side for n in range(side * side)], y=[n % side for n in range(side * side)]
    )

    ordered = sort_rows(rows, RowOrder(("x", "y"), "z-order"))

    x, y = (ordered.column(name).to_numpy() // (side // 2) for name in ("x", "y"))
    quarters = list(zip(x.tolist(), y.tolist(), strict=True))
    assert quarters == [(0, 0)] * 16 + [(0, 1)] * 16 + [(1, 0)] * 16 + [(1, 1)] * 16


def test_columns_of_any_scale_weigh_the_same() -> None:
    few = np.repeat(np.arange(2, dtype=np.uint64), 8)
    many = np.tile(np.arange(8, dtype=np.uint64), 2)

    ordered = np.argsort(compute_z_values([few, many]), kind="stable")

    assert [int(few[at]) for at in ordered[:4]] == [0] * 4
    assert {int(many[at]) for at in ordered[:4]} == {0, 1, 2, 3}


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-5, 5)), st.text(max_size=2)), max_size=40)
)
def test_nothing_is_lost_or_doubled(values: list[tuple[int | None, str]]) -> None:
    rows = pa.table(
        {
            "a": pa.array([a for a, _ in values], pa.int64()),
            "b": pa.array([b for _, b in values], pa.string()),
            "n": pa.array(range(len(values)), pa.int64()),
        }
    )

    for layout in ("linear", "z-order"):
        ordered = sort_rows(rows, RowOrder(("a", "b"), layout))
        assert sorted(ordered.column("n").to_numpy().tolist()) == list(range(len(values)))
        assert ordered.sort_by("n") == rows


def test_column_without_an_order_is_refused() -> None:
    schema = pa.schema([pa.field("a", pa.list_(pa.int64())), pa.field("b", pa.int64())])

    with pytest.raises(InvalidInput, match="nested"):
        check_order(RowOrder(("a",)), schema)
    with pytest.raises(InvalidInput, match="not in the table"):
        check_order(RowOrder(("c",)), schema)
    check_order(RowOrder(("b",)), schema)


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.integers(1, 400),
    st.integers(1, 20),
)
def test_rows_sorted_in_ranges_stand_as_if_sorted_whole(
    values: list[int], range_bytes: int, batch_rows: int
) -> None:
    rows = pa.table({"a": pa.array(values, pa.int64()), "n": pa.array(range(len(values)))})
    order = RowOrder(("a",))
    places = np.argsort(sort_positions(rows, order))

    parts = list(sort_into_places(rows.to_batches(batch_rows), places, range_bytes=range_bytes))

    assert pa.concat_tables([rows.slice(0, 0), *parts]) == sort_rows(rows, order)
    assert sum(part.num_rows for part in parts) == len(values)
    if range_bytes < 16 * 2:
        assert len(parts) == min(len(values), 256)
