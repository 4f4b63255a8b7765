"""Two states of the same keys, compared value by value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import META_COLUMNS, RECORD_KEY


def is_new_or_different(before: pa.Table, after: pa.Table) -> Any:
    """Per row of `after`: no row of its key in `before`, or one with other values."""
    keys = before.column(RECORD_KEY).combine_chunks()
    positions = pc.index_in(after.column(RECORD_KEY), value_set=keys)
    older = before.take(positions)
    different: Any = pc.is_null(positions)
    for name in after.column_names:
        if name not in META_COLUMNS:
            different = pc.or_(different, differs(older.column(name), after.column(name)))
    return different


def differs(left: Any, right: Any) -> Any:
    """Per row whether two columns of one type hold other values; two nulls are the same, and so are
    two NaN.
    """
    if pa.types.is_nested(right.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.chunked_array([pa.array([not _is_same(*pair) for pair in pairs], pa.bool_())])
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    if pa.types.is_floating(right.type):
        both_nan = pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False)
        unequal = pc.and_(unequal, pc.invert(both_nan))
    return pc.or_(unequal, pc.xor(pc.is_null(left), pc.is_null(right)))


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right or (left != left and right != right))
