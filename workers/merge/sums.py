"""The aggregate `sum`: a number that is right, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import SumOverflow
from workers.files.meta_columns import RECORD_KEY
from workers.merge.versions import Mask, Positions, combine_chunks, to_take_indices
from workers.options.aggregates import Aggregate
from workers.options.column_groups import ColumnGroup

_HALF_BITS = 32
_LOW_HALF = (1 << _HALF_BITS) - 1
_LONG_MAX = 1 << 63
_DECIMAL_DIGITS = 38


def list_sum_columns(groups: Sequence[ColumnGroup]) -> list[str]:
    """Return the columns that are sums."""
    return [
        name
        for group in groups
        for name, aggregate in group.aggregates.items()
        if aggregate.kind is Aggregate.SUM
    ]


def compute_sums(
    versions: pa.Table, codes: Positions, count: int, column: str, positions: Positions
) -> pa.Array[Any]:
    """Return, per code, the sum of its versions at `positions`. Raises SumOverflow."""
    values = combine_chunks(versions.column(column)).take(to_take_indices(positions))
    sums, beyond = group_sums(values, codes[positions], count)
    if len(beyond):
        at = int(np.flatnonzero(codes == beyond[0])[0])
        raise SumOverflow(
            "the sum of a key's versions is beyond what the column holds; delete the key and write "
            "it anew",
            column=column,
            type=values.type,
            key=versions.column(RECORD_KEY)[at].as_py(),
            keys=len(beyond),
        )
    return sums


def group_sums(
    values: pa.Array[Any], codes: Positions, count: int
) -> tuple[pa.Array[Any], Positions]:
    """Return, per code below `count`, the sum of its values, null without values; and the codes
    whose sum the type cannot hold.

    Only the total is checked, so the order of addition does not matter.
    """
    some = values.is_valid()
    codes, there = codes[np.asarray(some)], values.filter(some)
    missing: Mask = np.ones(count, dtype=np.bool_)
    missing[codes] = False
    if pa.types.is_int64(values.type):
        sums, beyond = _longs(there.to_numpy(), codes, count)
        return pa.array(sums, pa.int64(), mask=missing), beyond
    wide = pa.decimal256(76, values.type.scale) if pa.types.is_decimal(values.type) else values.type
    rows = pa.table({"code": to_take_indices(codes), "value": there.cast(wide)})
    added = rows.group_by("code", use_threads=False).aggregate([("value", "sum")])
    at = np.zeros(count, np.int64)
    at[added.column("code").to_numpy()] = np.arange(added.num_rows)
    totals: Any = added.column("value_sum").combine_chunks().take(to_take_indices(at, missing))
    if not pa.types.is_decimal(values.type):
        return totals, np.empty(0, np.int64)
    # The greatest of 38 digits, which is less than 128 bits hold.
    most = pa.scalar(10**_DECIMAL_DIGITS - 1, pa.decimal256(76, 0))
    units: Any = pc.abs(totals.view(pa.decimal256(76, 0)))
    is_beyond: Any = pc.fill_null(pc.greater(units, most), False)
    beyond = np.flatnonzero(is_beyond.to_numpy(zero_copy_only=False))
    in_range: Any = pc.if_else(is_beyond, pa.scalar(None, totals.type), totals)
    return in_range.cast(values.type), beyond


def _longs(values: Positions, codes: Positions, count: int) -> tuple[Positions, Positions]:
    """Sum in two halves, each of which can hold the sum of two thousand million values."""
    low, high = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(low, codes, values & _LOW_HALF)
    np.add.at(high, codes, values >> _HALF_BITS)
    high += low >> _HALF_BITS
    most = _LONG_MAX >> _HALF_BITS
    beyond = np.flatnonzero((high < -most) | (high >= most))
    return (high << _HALF_BITS) | (low & _LOW_HALF), beyond
