"""The size of the bloom filters in base files, under Hudi's own names and with its defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from workers.errors import InvalidInput
from workers.options.option import Integer, Number, OneOf, Option
from workers.options.option_values import choice, integer

ENTRIES_KEY: Final = "hoodie.index.bloom.num_entries"
FALSE_POSITIVES_KEY: Final = "hoodie.index.bloom.fpp"
TYPE_KEY: Final = "hoodie.bloom.index.filter.type"
ENTRIES_MAX_KEY: Final = "hoodie.bloom.index.filter.dynamic.max.entries"
HEADER_BYTES: Final = 13
"""The header of each row of bits, and of a dynamic filter before its rows."""
ROWS_HEADER_BYTES: Final = 12
_COUNT_MAX: Final = 100_000_000
_BITS_MAX: Final = 1 << 29
"""The limit for the filter of one file: 64 MiB, or 90 MB of text. Parquet readers accept footers of
up to 100 MB.
"""


class FilterType(StrEnum):
    """The kind of a filter: one row of bits, or a growing one (Hudi's `BloomFilterTypeCode`)."""

    SIMPLE = "SIMPLE"
    """One row of bits, made for this number of keys; with more it has more false positives."""
    DYNAMIC_V0 = "DYNAMIC_V0"
    """A further row for every so many keys, up to a number of keys."""


BLOOM_OPTIONS: Final[dict[str, str]] = {
    ENTRIES_KEY: "60000",
    FALSE_POSITIVES_KEY: "0.000000001",
    TYPE_KEY: FilterType.DYNAMIC_V0,
    ENTRIES_MAX_KEY: "100000",
}


@dataclass(frozen=True, slots=True)
class BloomOptions:
    """The size of the filter in each base file's footer; Hudi's defaults.

    Raises InvalidInput when made with a share outside 0 to 1, or with more than 64 MiB of bits.
    """

    entries: int = 60_000
    """Keys that a row is made for."""
    false_positives: float = 1e-9
    """The share of absent keys that a row with `entries` keys takes for present."""
    kind: FilterType = FilterType.DYNAMIC_V0
    entries_max: int = 100_000
    """Keys from which on a dynamic filter gets no further row."""

    def __post_init__(self) -> None:
        if not 0 < self.false_positives < 1:
            raise InvalidInput(
                "a share of false positives is more than 0 and less than 1",
                key=FALSE_POSITIVES_KEY,
                value=self.false_positives,
            )
        if (most := self.bits * self.rows_max) > _BITS_MAX:
            raise InvalidInput("bloom filters would be too large", bits=most, most=_BITS_MAX)

    @property
    def bits(self) -> int:
        """The number of bits in a row."""
        return math.ceil(self.entries * (-math.log(self.false_positives) / _LOG2_SQUARED))

    @property
    def hashes(self) -> int:
        """The number of bits of a row that each key sets."""
        return math.ceil(math.log(2) * self.bits / self.entries)

    @property
    def rows_max(self) -> int:
        """The limit of rows in a filter; 1 for `SIMPLE`."""
        if self.kind is FilterType.SIMPLE:
            return 1
        return max(1, math.ceil(self.entries_max / self.entries))

    def text_bytes(self, keys: int) -> int:
        """Return the length of the footer's text for a filter with this number of keys."""
        row = HEADER_BYTES + (self.bits + 7) // 8
        if self.kind is FilterType.SIMPLE:
            return _base64_bytes(row)
        rows = min(self.rows_max, max(1, math.ceil(keys / self.entries)))
        return _base64_bytes(HEADER_BYTES + ROWS_HEADER_BYTES + rows * row)


def _base64_bytes(count: int) -> int:
    return 4 * math.ceil(count / 3)


_LOG2_SQUARED: Final = math.log(2) * math.log(2)


_OF_BLOOM: Final = "under an index with bloom filters"
BLOOM_TABLE_OPTIONS: Final = (
    Option(
        ENTRIES_KEY,
        Integer(1, _COUNT_MAX),
        "",
        f"Keys that a filter is made for; {BLOOM_OPTIONS[ENTRIES_KEY]} {_OF_BLOOM}.",
    ),
    Option(
        FALSE_POSITIVES_KEY,
        Number(0, 1),
        "",
        "Share of absent keys that a filter takes for present; "
        f"{BLOOM_OPTIONS[FALSE_POSITIVES_KEY]} {_OF_BLOOM}.",
    ),
    Option(
        TYPE_KEY,
        OneOf(FilterType),
        "",
        f"Whether filters grow with their keys; {BLOOM_OPTIONS[TYPE_KEY]} {_OF_BLOOM}.",
    ),
    Option(
        ENTRIES_MAX_KEY,
        Integer(1, _COUNT_MAX),
        "",
        "Keys from which on a filter that grows gets no further row; "
        f"{BLOOM_OPTIONS[ENTRIES_MAX_KEY]} {_OF_BLOOM}.",
    ),
)


def bloom_options(options: Mapping[str, str]) -> BloomOptions:
    """Parse the options, with Hudi's defaults for absent or empty ones. Raises InvalidInput."""
    values = {key: options.get(key) or default for key, default in BLOOM_OPTIONS.items()}
    try:
        false_positives = float(values[FALSE_POSITIVES_KEY])
    except ValueError as error:
        text = values[FALSE_POSITIVES_KEY]
        raise InvalidInput("not a number", key=FALSE_POSITIVES_KEY, value=text) from error
    return BloomOptions(
        entries=integer(values, ENTRIES_KEY, least=1, most=_COUNT_MAX),
        false_positives=false_positives,
        kind=choice(values, TYPE_KEY, FilterType),
        entries_max=integer(values, ENTRIES_MAX_KEY, least=1, most=_COUNT_MAX),
    )


def select_bloom_options(values: Mapping[str, str], *, has_filters: bool) -> dict[str, str]:
    """Return `BLOOM_OPTIONS` as a table stores them, with defaults filled in. Raises
    InvalidInput.
    """
    if not has_filters:
        for key in BLOOM_OPTIONS:
            if values.get(key):
                raise InvalidInput("the option is of another index", key=key)
        return dict.fromkeys(BLOOM_OPTIONS, "")
    parsed = bloom_options(values)
    stored = {key: values.get(key) or default for key, default in BLOOM_OPTIONS.items()}
    return {**stored, TYPE_KEY: parsed.kind.value}
