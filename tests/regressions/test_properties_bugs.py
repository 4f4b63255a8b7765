"""A9: a table's properties are whole for every reader, whichever step of replacing them dies."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, MemoryStorage
from tests.support.watched_storage import Died, WatchedStorage
from workers.files.properties import load_properties, store_properties
from workers.storage.local import LocalStorage

KEY = "hoodie.bucket.index.num.buckets"
LONG = {f"hoodie.table.text{number}": "x" * 80 for number in range(9)}
READERS = 4
CALLS = 6
"""Two replacements and a removal, before and after each."""


def properties(buckets: int) -> dict[str, str]:
    return {"hoodie.table.name": "t", KEY: str(buckets), **LONG}


def test_a9_whichever_call_of_a_replacement_dies_the_old_or_the_new_is_read() -> None:
    start = MemoryStorage(StillClock())
    store_properties(start, properties(1))
    seen = set()
    for moment, die_at in itertools.product(MOMENTS, range(1, CALLS)):
        storage = FaultyStorage(StillClock(), start.files, die_at=die_at, moment=moment)
        try:
            store_properties(storage, properties(2))
        except Crash:
            left = MemoryStorage(StillClock(), storage.files)
            seen.add(load_properties(left)[KEY])
            store_properties(left, properties(3))
            assert load_properties(left)[KEY] == "3"
            assert len(left.files) == 1

    assert seen == {"1", "2"}


@pytest.mark.parametrize(
    "reads", [400, pytest.param(100_000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_a9_readers_looping_beside_a_writer_that_dies_never_see_half_a_file(
    tmp_path: Path, reads: int
) -> None:
    """Four readers and a writer that is killed at one step after the other."""
    store_properties(LocalStorage(tmp_path), properties(0))
    is_over = threading.Event()

    def read() -> list[int]:
        storage = LocalStorage(tmp_path)
        buckets: list[int] = []
        while not is_over.is_set() or len(buckets) < reads // READERS:
            properties = load_properties(storage)
            assert properties["hoodie.table.checksum"]
            assert len(properties) == len(LONG) + 3
            buckets.append(int(properties[KEY]))
        return buckets

    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read) for _ in range(READERS)]
        for number in range(1, 26):
            with suppress(Died):
                store_properties(dying_at(tmp_path, number % (2 * CALLS)), properties(number))
        store_properties(LocalStorage(tmp_path), properties(26))
        is_over.set()
        seen = [reader.result() for reader in readers]

    assert max(len(set(buckets)) for buckets in seen) > 1
    assert load_properties(LocalStorage(tmp_path))[KEY] == "26"


def dying_at(root: Path, last: int) -> WatchedStorage:
    """The process dies at this call of a replacement; from `CALLS` on it lives."""
    calls = itertools.count()

    def watch(call: str, path: str) -> None:
        if call != "read" and next(calls) == last:
            raise Died

    return WatchedStorage(root, before=watch, after=watch)
