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
    """Return for each row whether two columns of one type hold different values.

    Two nulls are the same value, and so are two NaNs. 0.0 and -0.0 are different.
    """
    if pa.types.is_nested(right.type):
        # The text of a NaN equals itself at any depth, and that of -0.0 differs from that of 0.0.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        unequal = [repr(one) != repr(other) for one, other in pairs]
        return pa.chunked_array([pa.array(unequal, pa.bool_())])
    if pa.types.is_floating(right.type):
        left, right = _bits(left), _bits(right)
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    return pc.or_(unequal, pc.xor(pc.is_null(left), pc.is_null(right)))


def _bits(numbers: Any) -> Any:
    """Return floats as the whole numbers that their bits spell; all NaNs have the same bits."""
    single = numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
    nan = pa.scalar(float("nan"), single.type)
    width: Any = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[single.type.bit_width]
    return pc.if_else(pc.is_nan(single), nan, single).view(width)
