"""Rows that break the table's rules, found and named, so that a user can find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import BadRows

_NAMED_MAX = 5


def reject_rows(is_bad: Any, message: str, column: str, **values: object) -> None:
    """Reject rows where `is_bad` is true; null counts as false. Raises BadRows."""
    positions = pc.indices_nonzero(pc.fill_null(is_bad, False))
    if len(positions):
        raise bad_rows(positions.to_pylist(), message, column, **values)


def bad_rows(positions: list[int], message: str, column: str, **values: object) -> BadRows:
    """Build the error for rows at these positions, ascending. Its text names the first 5, and
    `positions` has all of them.
    """
    named = positions[:_NAMED_MAX]
    error = BadRows(message, column=column, **values, rows=len(positions), first_rows=named)
    error.positions = tuple(positions)
    return error


def name_keys(error: BadRows, batch: pa.Table, key: Sequence[str]) -> None:
    """Add the keys of the rows of `batch` to the error: their positions are useless if the batch is
    a part of the input.
    """
    if not set(key) <= set(batch.column_names):
        return
    named = batch.select(list(key)).take(list(error.positions[:_NAMED_MAX])).to_pylist()
    is_single = len(key) == 1
    error.values["first_keys"] = [
        str(row[key[0]]) if is_single else ",".join(f"{name}:{row[name]}" for name in key)
        for row in named
    ]


def find_failing_rows(rows: int, fails: Callable[[int, int], bool], *, most: int) -> list[int]:
    """Find the rows for which `fails(start, rows)` is true individually, ascending, up to `most`.

    Halves the ranges: a few bad rows among many cost a few calls each.
    """
    positions: list[int] = []
    left = [(0, rows)] if rows else []
    while left and len(positions) < most:
        start, count = left.pop()
        if not fails(start, count):
            continue
        if count == 1:
            positions.append(start)
            continue
        half = count // 2
        left += [(start + half, count - half), (start, half)]
    return positions
