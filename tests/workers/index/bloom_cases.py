"""Filters that Apache Hudi 1.2 made; `tests/interop/test_bloom_filters.py` has them made anew."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workers.options.bloom_options import BloomOptions, FilterType


@dataclass(frozen=True)
class Case:
    options: BloomOptions
    keys: tuple[str, ...]
    text: str
    """Base64, or the SHA-256 of a long one."""

    def is_text(self, text: str) -> bool:
        return self.text in (text, hashlib.sha256(text.encode()).hexdigest())


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"key-{number}" for number in range(count))


_TEN_PERCENT = 0.1
_ODD = ("a", "é", "漢字", "😀", "\0", "a" * 700, "a", "id:1,name:Bob", "\uffff\U00010000")
CASES = {
    "simple": Case(
        BloomOptions(5, _TEN_PERCENT, FilterType.SIMPLE),
        numbered(5),
        "/////wAAAAQBAAAAGJn7Sg==",
    ),
    "simple, of nothing": Case(
        BloomOptions(5, _TEN_PERCENT, FilterType.SIMPLE), (), "/////wAAAAQBAAAAGAAAAA=="
    ),
    "simple, with more than it is made for": Case(
        BloomOptions(2, _TEN_PERCENT, FilterType.SIMPLE), numbered(7), "/////wAAAAQBAAAACr8D"
    ),
    "dynamic": Case(
        BloomOptions(5, _TEN_PERCENT, entries_max=10),
        numbered(3),
        "/////wAAAAQBAAAAGAAAAAUAAAADAAAAAf////8AAAAEAQAAABiJyEo=",
    ),
    "dynamic, any text": Case(
        BloomOptions(5, 0.001, entries_max=10),
        _ODD,
        "4ebed2f78c0a92b814205ae5fff7e5102111e36f0456e014db635cfde6c00422",
    ),
    "dynamic, of nothing": Case(
        BloomOptions(5, _TEN_PERCENT, entries_max=10),
        (),
        "/////wAAAAQBAAAAGAAAAAUAAAAAAAAAAf////8AAAAEAQAAABgAAAA=",
    ),
    "dynamic, a row full": Case(
        BloomOptions(3, _TEN_PERCENT, entries_max=6),
        numbered(3),
        "/////wAAAAQBAAAADwAAAAMAAAADAAAAAf////8AAAAEAQAAAA9sNw==",
    ),
    "dynamic, all rows full": Case(
        BloomOptions(3, _TEN_PERCENT, entries_max=6),
        numbered(6),
        "/////wAAAAQBAAAADwAAAAMAAAADAAAAAv////8AAAAEAQAAAA9sN/////8AAAAEAQAAAA9dYw==",
    ),
    "dynamic, one key more": Case(
        BloomOptions(3, _TEN_PERCENT, entries_max=7),
        numbered(10),
        "f7193cd9cda1baf9ee56b71768f5ddfec5e3d7e8379c11480a0100d09cb5943d",
    ),
    "dynamic, taking turns": Case(
        BloomOptions(3, _TEN_PERCENT, entries_max=7),
        numbered(23),
        "9f85cb6fca55c169e4754e9737d0503a74cf1479c14c50c795dd45165036cc9c",
    ),
    "dynamic, one row for all": Case(
        BloomOptions(4, _TEN_PERCENT, entries_max=4),
        numbered(9),
        "/////wAAAAQBAAAAFAAAAAQAAAAJAAAAAf////8AAAAEAQAAABT/+Q4=",
    ),
    "defaults": Case(
        BloomOptions(),
        numbered(1_000),
        "17a722412a84e632269b4123e4e8ae2ed6eb9b6918761623ddf4c301b3e11d67",
    ),
    "defaults, taking turns": Case(
        BloomOptions(),
        numbered(130_000),
        "b24eeae33dabd5a396f461e2943aed6e1ee3fceb82c43a9b877628f387653ba0",
    ),
}
