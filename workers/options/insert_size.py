"""File groups for the inserts of a write, under an index that looks up keys.

Hudi's rules and names: first into the small files of a partition, each up to the size that a file
may have, then into new file groups of that size. Pure; sizes and counts are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workers.options.option import Boolean, Integer, Number, Option, OptionSet

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
        Integer(0, _BYTES_MAX),
        "104857600",
        "Under an index that looks up keys: base files smaller than this, in bytes, are filled up "
        "by inserts; 0 fills none.",
    ),
    Option(
        MAX_FILE_KEY,
        Integer(1, _BYTES_MAX),
        "125829120",
        "Bytes up to which inserts fill a base file.",
    ),
    Option(
        RECORD_SIZE_KEY,
        Integer(1, _BYTES_MAX),
        "1024",
        "Bytes of a record, while no commit is large enough for an estimate.",
    ),
    Option(
        THRESHOLD_KEY,
        Number(0, 1000),
        "1.0",
        "How much a commit must have written for an estimate of the record size, as a share of the "
        "small file limit.",
    ),
    Option(
        SPLIT_KEY,
        Integer(1, 1 << 40),
        "500000",
        "Rows of a new base file, without auto split.",
    ),
    Option(
        AUTO_SPLIT_KEY,
        Boolean(),
        "true",
        "New base files get as many rows as fit by the size of a record.",
    ),
    Option(
        CANDIDATES_KEY,
        Integer(0, 1_000_000),
        "1",
        "Small files that a merge-on-read write fills up in each partition.",
    ),
)
COMMITS_READ_MAX: Final = 5
"""The number of commits that the size of a record is estimated from."""


@dataclass(frozen=True, slots=True)
class InsertSizing:
    """The growth of base files by inserts, in bytes and rows (Hudi's small-file handling)."""

    small_file_bytes: int
    file_bytes_max: int
    record_bytes: int
    """The estimate until commits are large enough, and then the measured size."""
    threshold: float
    split_rows: int
    splits_by_size: bool
    candidates_max: int

    @property
    def measured_from_bytes(self) -> int:
        """The bytes that a commit must exceed to measure the size of a record."""
        return int(self.small_file_bytes * self.threshold)

    @property
    def new_file_rows(self) -> int:
        """The rows in a new file group; at least 1."""
        by_size = self.file_bytes_max // self.record_bytes
        return max(1, by_size if self.splits_by_size else self.split_rows)


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file group with free space, by its slot in the write's context, and the bytes of its base
    file.
    """

    slot: int
    bytes: int


@dataclass(frozen=True, slots=True)
class InsertShare:
    """The number of a partition's inserts, in their order, that this slot gets."""

    slot: int
    rows: int
    is_new: bool


def insert_sizing(values: Mapping[str, str], keys: OptionSet) -> InsertSizing:
    """Parse the sizing; `keys` is the set that has `SIZING_OPTIONS`. Raises InvalidInput naming the
    key.
    """
    return InsertSizing(
        small_file_bytes=keys.integer(values, SMALL_FILE_KEY),
        file_bytes_max=keys.integer(values, MAX_FILE_KEY),
        record_bytes=keys.integer(values, RECORD_SIZE_KEY),
        threshold=keys.number(values, THRESHOLD_KEY),
        split_rows=keys.integer(values, SPLIT_KEY),
        splits_by_size=keys.boolean(values, AUTO_SPLIT_KEY),
        candidates_max=keys.integer(values, CANDIDATES_KEY),
    )


def estimate_record_bytes(written: Sequence[tuple[int, int]], sizing: InsertSizing) -> int:
    """Estimate the bytes of a record from the (bytes, records) that the latest commits wrote;
    without any that counts, return the option's estimate.
    """
    measurable = [
        commit for commit in written if commit[0] > sizing.measured_from_bytes and commit[1] > 0
    ]
    total, records = (
        sum(commit[0] for commit in measurable),
        sum(commit[1] for commit in measurable),
    )
    return max(1, total // records) if records else sizing.record_bytes


def assign_inserts(
    inserts: int, small: Sequence[SmallFile], first_new: int, sizing: InsertSizing
) -> list[InsertShare]:
    """Assign the inserts of one partition to slots. New slots have numbers from `first_new` on."""
    shares = []
    for small_file in small:
        room = (sizing.file_bytes_max - small_file.bytes) // sizing.record_bytes
        if (count := min(room, inserts)) > 0:
            shares.append(InsertShare(small_file.slot, count, is_new=False))
            inserts -= count
    slot = first_new
    while inserts > 0:
        count = min(sizing.new_file_rows, inserts)
        shares.append(InsertShare(slot, count, is_new=True))
        inserts, slot = inserts - count, slot + 1
    return shares
