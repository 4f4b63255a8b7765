"""Which keys a base file holds, and where rows go whose keys stand in several file groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from workers.files.base_keys import SortedKeys, find_stored_keys
from workers.files.meta_columns import RECORD_KEY
from workers.storage.local import LocalStorage
from workers.write.tagging import join_codes

TEXTS = st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=60)


@settings(deadline=None, max_examples=examples(60))
@given(stored=TEXTS, sought=TEXTS.filter(bool), rows=st.sampled_from([1, 7, 1000]))
def test_exactly_the_keys_of_the_file_are_held(
    stored: list[str], sought: list[str], rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("keys")
    table = pa.table({RECORD_KEY: pa.array(stored, pa.string()), "n": range(len(stored))})
    pq.write_table(table, place / "file", row_group_size=rows)
    keys = SortedKeys.of(pa.array([*sought, *stored[:5]], pa.string()))

    positions = find_stored_keys(LocalStorage(place), "file", keys)

    assert {keys[at] for at in positions.tolist()} == set(stored) & set(keys)


def test_row_groups_that_hold_none_of_the_keys_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"k{n:04}" for n in range(1000)]
    pq.write_table(pa.table({RECORD_KEY: names}), tmp_path / "file", row_group_size=100)
    read: list[int] = []
    reads = pq.ParquetFile.read_row_group

    def counted(self: pq.ParquetFile, number: int, **how: Any) -> pa.Table:
        read.append(number)
        return reads(self, number, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    keys = SortedKeys.of(pa.array(["a", "k0150", "k0599x", "z"]))

    positions = find_stored_keys(LocalStorage(tmp_path), "file", keys)

    assert [keys[at] for at in positions.tolist()] == ["k0150"]
    assert read == [1]  # "k0599x" lies between two groups.


def test_rows_meet_every_place_of_their_key() -> None:
    rows, places = np.array([5, 7, 5, 9]), np.array([7, 5, 8, 5])

    at, place = join_codes(rows, places)

    assert list(zip(at.tolist(), place.tolist(), strict=True)) == [
        (0, 1),
        (0, 3),
        (1, 0),
        (2, 1),
        (2, 3),
    ]
