"""Which file groups the inserts of a write go to, under an index that looks keys up.

Hudi's rules and names: first into the small files of a partition, each up to the size that a file
may have, then into new file groups of that size. Pure; sizes and counts are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workers.errors import InvalidInput
from workers.option_values import boolean, integer

SMALL_FILE_KEY: Final = "hoodie.parquet.small.file.limit"
MAX_FILE_KEY: Final = "hoodie.parquet.max.file.size"
RECORD_SIZE_KEY: Final = "hoodie.copyonwrite.record.size.estimate"
THRESHOLD_KEY: Final = "hoodie.record.size.estimation.threshold"
SPLIT_KEY: Final = "hoodie.copyonwrite.insert.split.size"
AUTO_SPLIT_KEY: Final = "hoodie.copyonwrite.insert.auto.split"
CANDIDATES_KEY: Final = "hoodie.merge.small.file.group.candidates.limit"

SIZING_OPTIONS: Final[dict[str, str]] = {
    SMALL_FILE_KEY: "104857600",  # 0 pads no file.
    MAX_FILE_KEY: "125829120",
    RECORD_SIZE_KEY: "1024",  # While no commit is large enough to tell.
    THRESHOLD_KEY: "1.0",  # Of the small file limit: what a commit must have written to tell.
    SPLIT_KEY: "500000",  # Rows of a new file, without auto split.
    AUTO_SPLIT_KEY: "true",
    CANDIDATES_KEY: "1",  # Small files that a merge-on-read write pads in each partition.
}
COMMITS_READ_MAX: Final = 5
"""Of which the size of a record is told."""
_BYTES_MAX: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class InsertSizing:
    small_file_bytes: int
    file_bytes_max: int
    record_bytes: int
    """The estimate until commits tell, and then what they tell."""
    threshold: float
    split_rows: int
    splits_by_size: bool
    candidates_max: int

    @property
    def telling_bytes(self) -> int:
        """A commit that wrote more tells how large a record is."""
        return int(self.small_file_bytes * self.threshold)

    @property
    def new_file_rows(self) -> int:
        by_size = self.file_bytes_max // self.record_bytes
        return max(1, by_size if self.splits_by_size else self.split_rows)


@dataclass(frozen=True, slots=True)
class SmallFile:
    slot: int
    bytes: int


@dataclass(frozen=True, slots=True)
class InsertShare:
    """So many of a partition's inserts, in their order, go to this slot."""

    slot: int
    rows: int
    is_new: bool


def insert_sizing(values: Mapping[str, str]) -> InsertSizing:
    """Raises InvalidInput naming the key."""
    return InsertSizing(
        small_file_bytes=integer(values, SMALL_FILE_KEY, least=0, most=_BYTES_MAX),
        file_bytes_max=integer(values, MAX_FILE_KEY, least=1, most=_BYTES_MAX),
        record_bytes=integer(values, RECORD_SIZE_KEY, least=1, most=_BYTES_MAX),
        threshold=_share(values, THRESHOLD_KEY),
        split_rows=integer(values, SPLIT_KEY, least=1, most=1 << 40),
        splits_by_size=boolean(values, AUTO_SPLIT_KEY),
        candidates_max=integer(values, CANDIDATES_KEY, least=0, most=1_000_000),
    )


def told_record_bytes(written: Sequence[tuple[int, int]], sizing: InsertSizing) -> int:
    """Bytes of a record, from the (bytes, records) that were written of late."""
    telling = [one for one in written if one[0] > sizing.telling_bytes and one[1] > 0]
    total, records = sum(one[0] for one in telling), sum(one[1] for one in telling)
    return max(1, total // records) if records else sizing.record_bytes


def dealt_out(
    inserts: int, small: Sequence[SmallFile], first_new: int, sizing: InsertSizing
) -> list[InsertShare]:
    """Where the inserts of one partition go. New slots count on from `first_new`."""
    shares = []
    for one in small:
        room = (sizing.file_bytes_max - one.bytes) // sizing.record_bytes
        if (taken := min(room, inserts)) > 0:
            shares.append(InsertShare(one.slot, taken, is_new=False))
            inserts -= taken
    slot = first_new
    while inserts > 0:
        taken = min(sizing.new_file_rows, inserts)
        shares.append(InsertShare(slot, taken, is_new=True))
        inserts, slot = inserts - taken, slot + 1
    return shares


def _share(values: Mapping[str, str], key: str) -> float:
    try:
        found = float(values[key])
    except ValueError as error:
        raise InvalidInput("not a number", key=key, value=values[key]) from error
    if not 0 <= found <= 1000:
        raise InvalidInput("number out of range", key=key, value=values[key], least=0, most=1000)
    return found


DEFAULT_SIZING: Final = insert_sizing(SIZING_OPTIONS)
