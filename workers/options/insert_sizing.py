"""Which file groups the inserts of a write go to, under an index that looks keys up.

Hudi's rules and names: first into the small files of a partition, each up to the size that a file
may have, then into new file groups of that size. Pure; sizes and counts are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workers.options.option import Number, Option, OptionSet, Switch, Whole

SMALL_FILE_KEY: Final = "hoodie.parquet.small.file.limit"
MAX_FILE_KEY: Final = "hoodie.parquet.max.file.size"
RECORD_SIZE_KEY: Final = "hoodie.copyonwrite.record.size.estimate"
THRESHOLD_KEY: Final = "hoodie.record.size.estimation.threshold"
SPLIT_KEY: Final = "hoodie.copyonwrite.insert.split.size"
AUTO_SPLIT_KEY: Final = "hoodie.copyonwrite.insert.auto.split"
CANDIDATES_KEY: Final = "hoodie.merge.small.file.group.candidates.limit"

_BYTES_MAX: Final = 1 << 50
SIZING_OPTIONS: Final = (
    Option(
        SMALL_FILE_KEY,
        Whole(0, _BYTES_MAX),
        "104857600",
        "Under an index that looks keys up: base files smaller than this, in bytes, are filled up "
        "by inserts; 0 fills none.",
    ),
    Option(
        MAX_FILE_KEY,
        Whole(1, _BYTES_MAX),
        "125829120",
        "Bytes up to which inserts fill a base file.",
    ),
    Option(
        RECORD_SIZE_KEY,
        Whole(1, _BYTES_MAX),
        "1024",
        "Bytes of a record, while no commit is large enough to tell.",
    ),
    Option(
        THRESHOLD_KEY,
        Number(0, 1000),
        "1.0",
        "How much a commit must have written to tell the size of a record, as a share of the small "
        "file limit.",
    ),
    Option(
        SPLIT_KEY,
        Whole(1, 1 << 40),
        "500000",
        "Rows of a new base file, without auto split.",
    ),
    Option(
        AUTO_SPLIT_KEY,
        Switch(),
        "true",
        "New base files get as many rows as fit by the size of a record.",
    ),
    Option(
        CANDIDATES_KEY,
        Whole(0, 1_000_000),
        "1",
        "Small files that a merge-on-read write fills up in each partition.",
    ),
)
COMMITS_READ_MAX: Final = 5
"""Of which the size of a record is told."""


@dataclass(frozen=True, slots=True)
class InsertSizing:
    """How large base files grow by inserts, in bytes and rows (Hudi's small-file handling)."""

    small_file_bytes: int
    file_bytes_max: int
    record_bytes: int
    """The estimate until commits tell, and then what they tell."""
    threshold: float
    split_rows: int
    splits_by_size: bool
    candidates_max: int

    @property
    def measured_from_bytes(self) -> int:
        """A commit that wrote more tells how large a record is."""
        return int(self.small_file_bytes * self.threshold)

    @property
    def new_file_rows(self) -> int:
        """Rows that a new file group takes; at least 1."""
        by_size = self.file_bytes_max // self.record_bytes
        return max(1, by_size if self.splits_by_size else self.split_rows)


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file group with room, by its slot in the write's context, and the bytes of its base
    file.
    """

    slot: int
    bytes: int


@dataclass(frozen=True, slots=True)
class InsertShare:
    """So many of a partition's inserts, in their order, go to this slot."""

    slot: int
    rows: int
    is_new: bool


def insert_sizing(values: Mapping[str, str], keys: OptionSet) -> InsertSizing:
    """`keys` is the set that has `SIZING_OPTIONS`. Raises InvalidInput naming the key."""
    return InsertSizing(
        small_file_bytes=keys.integer(values, SMALL_FILE_KEY),
        file_bytes_max=keys.integer(values, MAX_FILE_KEY),
        record_bytes=keys.integer(values, RECORD_SIZE_KEY),
        threshold=keys.number(values, THRESHOLD_KEY),
        split_rows=keys.integer(values, SPLIT_KEY),
        splits_by_size=keys.boolean(values, AUTO_SPLIT_KEY),
        candidates_max=keys.integer(values, CANDIDATES_KEY),
    )


def expected_record_bytes(written: Sequence[tuple[int, int]], sizing: InsertSizing) -> int:
    """Bytes of a record, from the (bytes, records) that the latest commits wrote; the option's
    estimate where these say nothing.
    """
    measurable = [one for one in written if one[0] > sizing.measured_from_bytes and one[1] > 0]
    total, records = sum(one[0] for one in measurable), sum(one[1] for one in measurable)
    return max(1, total // records) if records else sizing.record_bytes


def dealt_out(
    inserts: int, small: Sequence[SmallFile], first_new: int, sizing: InsertSizing
) -> list[InsertShare]:
    """Where the inserts of one partition go. New slots count on from `first_new`."""
    shares = []
    for small_file in small:
        room = (sizing.file_bytes_max - small_file.bytes) // sizing.record_bytes
        if (taken := min(room, inserts)) > 0:
            shares.append(InsertShare(small_file.slot, taken, is_new=False))
            inserts -= taken
    slot = first_new
    while inserts > 0:
        taken = min(sizing.new_file_rows, inserts)
        shares.append(InsertShare(slot, taken, is_new=True))
        inserts, slot = inserts - taken, slot + 1
    return shares
