"""The unit of an ordering column's numbers, if they are times: declared, never guessed.

A column of timestamps or dates has it in its type. For numbers a table declares it in
`sluice.event.time.unit`: a unit for all of them (`ms`), or a unit by column
(`shown_at=ms,paid_at=s`). A number of a column without a unit orders versions, and is not a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workers.errors import InvalidInput
from workers.options.option_values import parse_list

TIME_UNIT_KEY = "sluice.event.time.unit"
AHEAD_MAX_MS = 5 * 60_000
"""Clocks differ by less; an event that is further ahead of its arrival is none of now."""


class TimeUnit(StrEnum):
    """The unit, as `sluice.event.time.unit` spells it."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    @property
    def per_s(self) -> int:
        """The number of units in a second."""
        return _PER_S[self]


_PER_S = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 1_000,
    TimeUnit.MICROSECONDS: 1_000_000,
    TimeUnit.NANOSECONDS: 1_000_000_000,
}


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """The declared units of a table's ordering columns."""

    every: TimeUnit | None = None
    by_column: Mapping[str, TimeUnit] = field(default_factory=dict)

    def of(self, column: str) -> TimeUnit | None:
        """Return the unit of a column's numbers, or None if they are not times."""
        return self.by_column.get(column, self.every)


def time_units(text: str) -> TimeUnits:
    """Parse the units of `ms`, or `column=ms,other=s`. Raises InvalidInput."""
    every: TimeUnit | None = None
    by_column: dict[str, TimeUnit] = {}
    for part in parse_list(text):
        column, is_named, unit = part.rpartition("=")
        if unit not in set(TimeUnit):
            raise InvalidInput(
                "a unit of time is s, ms, us or ns, for all columns or as column=unit",
                key=TIME_UNIT_KEY,
                given=part,
            )
        if is_named:
            by_column[column.strip()] = TimeUnit(unit)
        else:
            every = TimeUnit(unit)
    return TimeUnits(every, by_column)
