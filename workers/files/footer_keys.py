"""Record keys in the footer of a base file, under Hudi's names: their range, and a filter that
excludes most other keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from workers.files.key_range import KeyRange

MIN_KEY: Final = "hoodie_min_record_key"
MAX_KEY: Final = "hoodie_max_record_key"
FILTER_KEY: Final = "org.apache.hudi.bloomfilter"
FILTER_TYPE_KEY: Final = "hoodie_bloom_filter_type_code"
_RANGE: Final = {MIN_KEY, MAX_KEY}
_OLD_FILTER_KEY: Final = "com.uber.hoodie.bloomfilter"
_UNTOLD_TYPE: Final = "SIMPLE"


class KeyFilter(Protocol):
    """A filter that receives the keys of one file while it is written, and goes into its footer."""

    def add(self, keys: pa.ChunkedArray[Any]) -> None:
        """Add some of the file's keys; every key of the file is added once."""

    def footer(self) -> Mapping[str, str]:
        """Return footer entries by their key, when all keys were added."""


@dataclass(frozen=True, slots=True)
class FilterText:
    """A bloom filter as a footer holds it: base64 text, and `SIMPLE` or `DYNAMIC_V0` (format page
    4.5).
    """

    text: str
    type_code: str

    def footer(self) -> dict[str, str]:
        """Return the two footer entries."""
        return {FILTER_KEY: self.text, FILTER_TYPE_KEY: self.type_code}


@dataclass(frozen=True, slots=True)
class FooterKeys:
    """The keys as a footer describes them; None for a part that it lacks."""

    range: KeyRange | None
    filter: FilterText | None

    @classmethod
    def from_footer(cls, footer: Mapping[str, str]) -> FooterKeys:
        """Parse all of a footer's entries; the name that filters had before Hudi's present one is
        known too.
        """
        text = footer.get(FILTER_KEY, footer.get(_OLD_FILTER_KEY))
        code = footer.get(FILTER_TYPE_KEY, _UNTOLD_TYPE)
        return cls(
            KeyRange(footer[MIN_KEY], footer[MAX_KEY]) if footer.keys() >= _RANGE else None,
            None if text is None else FilterText(text, code),
        )


def range_footer(key_range: KeyRange | None) -> dict[str, str]:
    """Return footer entries of the least and the greatest key, or none without a range."""
    return {} if key_range is None else {MIN_KEY: key_range.least, MAX_KEY: key_range.greatest}
