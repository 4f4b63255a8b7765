"""Ordering values as numbers that compare: of any type, of several columns, null lowest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.group_state import column_version, group_delete, has_column_ages
from workers.merge.versions import Mask, Positions, combine_chunks
from workers.options.column_groups import ColumnGroup

Ages: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Winners:
    """The winning version of each key among some: its position, or -1, and its ordering value."""

    at: Positions
    age: Ages

    def is_above(self, other: Winners) -> Mask:
        """Return where it is greater than the other's. If one state holds both, that was decided
        before.
        """
        greater = (self.age > other.age) | ((self.age == other.age) & (self.at >= other.at))
        above: Mask = (self.at >= 0) & ((other.at < 0) | greater)
        return above


def find_out_of_order(codes: Positions, ages: Ages) -> Positions:
    """Return the positions of ordering values that are below an earlier one under the same code."""
    order = np.argsort(codes, kind="stable")
    _, ranks = np.unique(ages[order], return_inverse=True)
    heights = codes[order] * (len(ages) + 1) + ranks  # Every code begins above the last.
    return np.sort(order[heights < np.maximum.accumulate(heights)])


def ordering_columns(group: ColumnGroup) -> Iterator[tuple[str, ...]]:
    """Yield the columns with ordering values of this group, as many of each as the ordering has."""
    parts = range(len(group.ordering))
    yield group.ordering
    if has_column_ages(group):
        yield tuple(group_delete(group.name, part) for part in parts)
    for column in group.columns:
        if group.is_versioned(column):
            yield tuple(column_version(column, part) for part in parts)


def rank_ordering_values(versions: pa.Table, ages: Sequence[tuple[str, ...]]) -> list[Ages]:
    """Return numbers that compare as the ordering values do, among all of them."""
    columns = [[combine_chunks(versions.column(name)) for name in names] for names in ages]
    if all(len(parts) == 1 for parts in columns):
        plain = [_to_numbers(parts[0]) for parts in columns]
        if all(numbers is not None for numbers in plain):
            return [numbers for numbers in plain if numbers is not None]
    rows = versions.num_rows
    combined = np.zeros(rows * len(ages), np.int64)
    for part in range(len(ages[0])):
        stacked = pa.chunked_array([parts[part] for parts in columns])
        rank: Any = pc.rank(
            stacked,
            sort_keys=[("", "ascending", "at_start")],  # type: ignore[arg-type]  # stubs lag
            tiebreaker="dense",
        )
        own = rank.to_numpy().astype(np.int64)
        combined = combined * (int(own.max(initial=0)) + 1) + own
        _, combined = np.unique(combined, return_inverse=True)
    return [combined[n * rows : (n + 1) * rows] for n in range(len(ages))]


def _to_numbers(column: pa.Array[Any]) -> Ages | None:
    """Return numbers, dates and times as numpy has them, null lowest; None for other types."""
    kind: Any = column.type
    values: Any = column
    if pa.types.is_temporal(kind):
        values = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_signed_integer(kind) or pa.types.is_floating(kind)):
        return None
    is_float = pa.types.is_floating(kind)
    lowest: Any = -np.inf if is_float else np.iinfo(np.int64).min
    wide = values.cast(pa.float64() if is_float else pa.int64())
    return np.asarray(pc.fill_null(wide, lowest).to_numpy(zero_copy_only=False))


def lowest(ages: Ages) -> Any:
    """Return the least number of the type of the ordering values."""
    return -np.inf if ages.dtype.kind == "f" else np.iinfo(ages.dtype).min


def highest(ages: Ages) -> Any:
    """Return the greatest number of the type of the ordering values."""
    return np.inf if ages.dtype.kind == "f" else np.iinfo(ages.dtype).max
