"""Which row groups of a base file can hold rows that a filter takes: judged by statistics alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.read.pruning import Condition
from workers.read.statistics import ColumnBounds, FileKnown, RowsKnown
from workers.read.unprovable import may_be_true


@dataclass(frozen=True, slots=True)
class Opaque:
    """A filter of which nobody but Arrow knows what it says."""

    expression: Any
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class RowGroupPruner:
    """Leaves out row groups of base files that are read under `schema`, with conditions that must
    all hold. What is not known is kept.
    """

    schema: pa.Schema
    conditions: tuple[Condition, ...]
    opaque: Opaque | None = None
    """A filter that is no conditions, which must hold as well."""

    @property
    def columns(self) -> list[str]:
        """Those of which something should be known."""
        looked_at = self.opaque.columns if self.opaque else frozenset[str]()
        return sorted({*(one.column for one in self.conditions), *looked_at})

    def kept(self, known: FileKnown) -> list[int]:
        """Numbers of the row groups to read."""
        return [number for number, reason in self.reasons(known).items() if reason is None]

    def reasons(self, known: FileKnown) -> dict[int, str | None]:
        """By row group the columns by which it is left out; None where it is read."""
        reasons = {one.number: self._reason(known, one) for one in known.groups}
        if self.opaque is None or not known.groups:
            return reasons
        alike = {
            name
            for name in self.opaque.columns
            if name in known.stored.names
            and known.stored.field(name).type == self.schema.field(name).type
        }
        bounds = [{n: b for n, b in one.bounds.items() if n in alike} for one in known.groups]
        possible = may_be_true(self.opaque.expression, self.schema, bounds)
        for at in set(range(len(known.groups))).difference(possible):
            reasons[known.groups[at].number] = ", ".join(sorted(self.opaque.columns))
        return reasons

    def _reason(self, known: FileKnown, group: RowsKnown) -> str | None:
        for condition in self.conditions:
            bounds = group.bounds.get(condition.column)
            if (
                bounds is not None
                and self._is_comparable(condition, known.stored)
                and not _may_hold(condition, bounds)
            ):
                return condition.column
        return None

    def _is_comparable(self, condition: Condition, stored: pa.Schema) -> bool:
        """A column that was widened since has other values in the file, and NaN is in no statistics
        although it differs from everything.
        """
        name = condition.column
        if name not in self.schema.names or name not in stored.names:
            return False
        kind: Any = stored.field(name).type
        is_known = kind == self.schema.field(name).type
        return is_known and not (pa.types.is_floating(kind) and _takes_nan(condition))


def _takes_nan(condition: Condition) -> bool:
    return condition.values is None and condition.holds(math.nan)


def _may_hold(condition: Condition, bounds: ColumnBounds) -> bool:
    if bounds.has_nulls and condition.holds(None):
        return True
    lowest, highest = bounds.lowest, bounds.highest
    if lowest is None or highest is None:
        return bounds.has_values
    if lowest != lowest or highest != highest:  # NaN, which some writers put there.
        return True
    if condition.values is not None:
        return any(_is_between(lowest, value, highest) for value in condition.values)
    if condition.compared is not None and type(condition.compared) is not type(lowest):
        return True
    # Orders and differing: what neither bound fulfils, nothing between them does.
    return condition.holds(lowest) or condition.holds(highest)


def _is_between(lowest: Any, value: Any, highest: Any) -> bool:
    """Of values of one type: across types Arrow compares after it rounded."""
    if value is None:
        return False  # Nulls were judged by their number.
    return type(value) is not type(lowest) or bool(lowest <= value <= highest)
