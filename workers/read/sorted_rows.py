"""The first rows of a scan in the order of one column, in little memory.

Batches stream by. Rows behind the last one that is first so far are dropped before anything is
sorted. The sort is stable: equal rows stay in the order of the scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput

_SORTED_TOGETHER: Final = 65_536
"""Rows that are collected before they are sorted."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """By which column rows are sorted. Nulls come last in both directions."""

    column: str
    is_descending: bool = False


def check_order(order: RowOrder, schema: pa.Schema) -> None:
    """Check that the column exists and its values have an order. Raises InvalidInput."""
    if order.column not in schema.names:
        raise InvalidInput("table has no such column", column=order.column, known=schema.names)
    kind = schema.field(order.column).type
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind):
        raise InvalidInput("values of this type have no order", column=order.column, type=str(kind))


def first_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, order: RowOrder, rows: int
) -> pa.Table:
    """Return the first `rows` rows in this order."""
    first = schema.empty_table()
    collected: list[pa.Table] = []
    count = 0
    for batch in batches:
        part = pa.Table.from_batches([batch])
        if first.num_rows == rows:
            part = part.filter(_can_come_before(part, first, order))
        if not part.num_rows:
            continue
        collected.append(part)
        count += part.num_rows
        if count >= max(_SORTED_TOGETHER, rows):
            first, collected, count = _sort([first, *collected], order, rows), [], 0
    return _sort([first, *collected], order, rows)


def _sort(parts: list[pa.Table], order: RowOrder, rows: int) -> pa.Table:
    together = pa.concat_tables(parts)
    direction = "descending" if order.is_descending else "ascending"
    keys: Any = [(order.column, direction, "at_end")]
    at = pc.sort_indices(together, sort_keys=keys)
    # A copy: rows that are left out must not stay in memory behind those that are first.
    return together.take(at.slice(0, rows)).combine_chunks()


def _can_come_before(part: pa.Table, first: pa.Table, order: RowOrder) -> Any:
    """Return per row whether it can be among the first ones. Rows equal to the last one can."""
    last = first.column(order.column)[first.num_rows - 1]
    values: Any = part.column(order.column)
    if not last.is_valid:
        return pa.chunked_array([pa.repeat(pa.scalar(True), part.num_rows)])
    if pa.types.is_floating(values.type) and pc.is_nan(last).as_py():
        return pc.is_valid(values)
    compare: Any = pc.greater_equal if order.is_descending else pc.less_equal
    return pc.fill_null(compare(values, last), False)
