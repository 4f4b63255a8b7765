"""Where inserts go, as a table: small files of a partition, the rows to insert, and the shares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.errors import InvalidInput
from workers.options.insert_size import (
    InsertSizing,
    SmallFile,
    assign_inserts,
    estimate_record_bytes,
)
from workers.options.write_options import DEFAULT_SIZING, write_options

SIZING = replace(
    DEFAULT_SIZING, small_file_bytes=900, file_bytes_max=1000, record_bytes=10, split_rows=7
)
BY_HAND = replace(SIZING, splits_by_size=False)


def test_defaults_are_those_of_hudi() -> None:
    sizing = write_options({}).sizing

    assert sizing == DEFAULT_SIZING
    assert (sizing.small_file_bytes, sizing.file_bytes_max) == (104_857_600, 125_829_120)
    assert (sizing.record_bytes, sizing.threshold, sizing.split_rows) == (1024, 1.0, 500_000)
    assert (sizing.splits_by_size, sizing.candidates_max) == (True, 1)
    assert sizing.new_file_rows == 122_880


@pytest.mark.parametrize(
    ("inserts", "small", "sizing", "shares"),
    [
        # A share is slot:rows, `+` a new file group. Slots count on from 5.
        (0, {}, SIZING, ""),
        (1, {}, SIZING, "+5:1"),
        (100, {}, SIZING, "+5:100"),
        (101, {}, SIZING, "+5:100 +6:1"),
        (250, {}, SIZING, "+5:100 +6:100 +7:50"),
        (3, {0: 500}, SIZING, "0:3"),
        (50, {0: 500}, SIZING, "0:50"),
        (51, {0: 500}, SIZING, "0:50 +5:1"),
        (60, {0: 500, 3: 890}, SIZING, "0:50 3:10"),
        (70, {0: 500, 3: 890}, SIZING, "0:50 3:11 +5:9"),
        (5, {0: 1000, 1: 995, 2: 2000}, SIZING, "+5:5"),  # No room in any of them.
        (15, {}, BY_HAND, "+5:7 +6:7 +7:1"),
        (60, {0: 500}, BY_HAND, "0:50 +5:7 +6:3"),
        (2, {}, replace(SIZING, record_bytes=5000), "+5:1 +6:1"),
    ],
)
def test_where_inserts_go(
    inserts: int, small: dict[int, int], sizing: InsertSizing, shares: str
) -> None:
    files = [SmallFile(slot, size) for slot, size in small.items()]

    slot_shares = assign_inserts(inserts, files, 5, sizing)

    assert " ".join(f"{'+' * one.is_new}{one.slot}:{one.rows}" for one in slot_shares) == shares
    assert sum(one.rows for one in slot_shares) == inserts


@pytest.mark.parametrize(
    ("written", "record_bytes"),
    [
        ([], 10),
        ([(900, 3)], 10),  # Not more than the limit, so too small to tell.
        ([(901, 3)], 300),
        ([(901, 0)], 10),
        ([(1000, 10), (50, 50), (3000, 10)], 200),
        ([(1000, 5000)], 1),
    ],
)
def test_how_large_a_record_is(written: list[tuple[int, int]], record_bytes: int) -> None:
    assert estimate_record_bytes(written, SIZING) == record_bytes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.max.file.size", "0"),
        ("hoodie.parquet.small.file.limit", "-1"),
        ("hoodie.record.size.estimation.threshold", "much"),
        ("hoodie.record.size.estimation.threshold", "-0.1"),
        ("hoodie.copyonwrite.insert.auto.split", "perhaps"),
        ("hoodie.copyonwrite.record.size.estimate", "0"),
    ],
)
def test_sizes_that_are_none_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=key):
        write_options({key: value})
