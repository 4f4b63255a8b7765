"""Rows that break the table's rules, found and named: a person must be able to go and look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import BadRows

_NAMED_MAX = 5


def refuse_rows(is_bad: Any, message: str, column: str, **values: object) -> None:
    """Refuse rows where `is_bad` is true; null counts as false. Raises BadRows."""
    positions = pc.indices_nonzero(pc.fill_null(is_bad, False))
    if len(positions):
        raise bad_rows(positions.to_pylist(), message, column, **values)


def bad_rows(positions: list[int], message: str, column: str, **values: object) -> BadRows:
    """The error for rows at these positions, ascending; its text names the first 5, and `positions`
    has all of them.
    """
    named = positions[:_NAMED_MAX]
    error = BadRows(message, column=column, **values, rows=len(positions), first_rows=named)
    error.positions = tuple(positions)
    return error


def name_keys(error: BadRows, batch: pa.Table, key: Sequence[str]) -> None:
    """Say by their keys which rows of `batch` are meant: where they stand says nothing of a batch
    that is a part of what was given.
    """
    if not set(key) <= set(batch.column_names):
        return
    named = batch.select(list(key)).take(list(error.positions[:_NAMED_MAX])).to_pylist()
    is_single = len(key) == 1
    error.values["first_keys"] = [
        str(row[key[0]]) if is_single else ",".join(f"{name}:{row[name]}" for name in key)
        for row in named
    ]


def failing_rows(rows: int, fails: Callable[[int, int], bool], *, most: int) -> list[int]:
    """The rows for which `fails(start, rows)` holds by themselves, ascending, up to `most`.

    By halving: few bad rows among many cost a few looks each.
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
