"""Bloom filters of Apache Hudi's own classes and ours: the same bytes, the same answers, and tables
in which either engine finds its rows by the other's filters.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from tests.support.referee import referee_table
from tests.workers.index.bloom_cases import CASES, Case
from workers.concurrency.outcome import Committed
from workers.files.base_file import read_base_file
from workers.files.meta_columns import RECORD_KEY
from workers.index.bloom_filter import BloomFilter, HashedKeys
from workers.index.file_keys import FileKeys, read_file_keys
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.bloom_options import BloomOptions, FilterType
from workers.table.view import FileSystemView

pytestmark = pytest.mark.interop

SEED = 20_260_101
LETTERS = "ab:,09_é漢\uffee😀\U0010ffff\0"
CASE_COUNT = 400


def hudis(peer: HudiPeer, options: BloomOptions, keys: list[str]) -> str:
    return peer.bloom_filter(
        keys, options.kind, options.entries, options.false_positives, options.entries_max
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_hudi_makes_the_filters_that_are_kept_here(peer: HudiPeer, case: Case) -> None:
    assert case.is_text(hudis(peer, case.options, list(case.keys)))


def test_filters_of_any_size_and_any_keys_have_equal_bytes_and_give_equal_answers(
    peer: HudiPeer,
) -> None:
    chance = random.Random(SEED)
    for number in range(CASE_COUNT):
        options, keys = drawn(chance)
        text = hudis(peer, options, keys)

        ours = BloomFilter.of_keys(pa.array(keys, pa.string()), options)

        assert ours.to_text() == text, (SEED, number, options, keys)
        probes = [*keys[:5], *(f"{key}!" for key in keys[:5])]
        answers = BloomFilter.from_text(text, options.kind).might_contain(
            pa.array(probes, pa.string())
        )
        assert answers.tolist() == peer.might_contain(text, options.kind, probes)
        assert answers[: len(keys[:5])].all()


def drawn(chance: random.Random) -> tuple[BloomOptions, list[str]]:
    entries = chance.choice([1, 2, 3, 7, 30, 1_000])
    options = BloomOptions(
        entries,
        chance.choice([1e-300, 1e-9, 1e-4, 0.01, 0.3333, 0.5, 0.9, 0.999999]),
        chance.choice(list(FilterType)),
        chance.choice([1, 2, entries, entries + 1, 2 * entries, 3 * entries - 1, 5 * entries]),
    )
    longest = chance.choice([1, 3, 9, 40, 300])
    keys = [
        "".join(chance.choices(LETTERS, k=chance.randint(1, longest)))
        for _ in range(chance.choice([0, 1, entries, entries + 1, 60]) % 100)
    ]
    return options, keys


PRIVATE, PAIR = "\uffee", "\U0001f600"
"""The first is less by UTF-8 bytes, the second by UTF-16 units."""
ODD_KEYS = [f"k{letter}{n:02}" for n in range(10) for letter in ("", "é", PRIVATE, PAIR)]
PLAIN_KEYS = [f"k{n:03}" for n in range(40)]
FILTERS = {
    "hoodie.index.bloom.num_entries": "30",
    "hoodie.index.bloom.fpp": "0.0001",
    "hoodie.bloom.index.filter.dynamic.max.entries": "60",
}
EVERY_INSERT_MAKES_A_FILE = {"hoodie.parquet.small.file.limit": "0"}
"""So that a row which is not found stands twice, instead of being merged by chance."""
keys_of_files = pytest.mark.parametrize("keys", [PLAIN_KEYS, ODD_KEYS], ids=["plain", "odd"])


def table_of(location: Path, **options: str) -> LakehouseTable:
    return create_table(
        location,
        name="filtered",
        schema=rows([], 0).schema,
        record_key=["id"],
        ordering=["ts"],
        options={"hoodie.index.type": "BLOOM"} | FILTERS | options,
    )


def rows(keys: list[str], ts: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(keys, pa.string()), "ts": pa.array([ts] * len(keys), pa.int64())}
    )


def ours(location: Path, keys: list[str], ts: int) -> None:
    options = {"hoodie.write.markers.type": "direct"} | EVERY_INSERT_MAKES_A_FILE
    assert isinstance(open_table(location).write(rows(keys, ts), options=options), Committed)


def theirs(
    peer: HudiPeer, location: Path, keys: list[str], ts: int, operation: str = "upsert"
) -> None:
    """Told nothing of filters: Hudi takes what the table keeps."""
    given = write_options(
        name="filtered",
        record_key=["id"],
        ordering=["ts"],
        buckets=1,
        table_type="COPY_ON_WRITE",
        operation=operation,
    )
    for key in ("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field"):
        del given[key]
    given |= {"hoodie.index.type": "BLOOM"} | EVERY_INSERT_MAKES_A_FILE
    peer.write(location, rows(keys, ts), given)


def agreed_rows(peer: HudiPeer, location: Path) -> list[tuple[Any, Any]]:
    """The rows, as all three readers see them."""
    views = [
        sorted((row["id"], row["ts"]) for row in read.to_pylist())
        for read in (open_table(location).read(), referee_table(location), peer.read(location))
    ]
    assert views[0] == views[1] == views[2]
    return views[0]


def files(location: Path) -> Iterator[tuple[FileKeys, Any]]:
    """What the footer of each visible base file tells, and its keys."""
    table = open_table(location).table
    for slice_ in FileSystemView.load(table).slices:
        assert slice_.base_file is not None
        keys = read_base_file(table.storage, slice_.base_file, [RECORD_KEY]).column(RECORD_KEY)
        yield read_file_keys(table.storage, slice_.base_file), keys


@keys_of_files
@pytest.mark.parametrize("kind", FilterType)
def test_hudis_upserts_find_the_rows_by_our_filters(
    peer: HudiPeer, location: Path, keys: list[str], kind: FilterType
) -> None:
    table_of(location, **{"hoodie.bloom.index.filter.type": kind.value})
    ours(location, keys[:30], 1)
    ours(location, keys[30:], 1)

    theirs(peer, location, [*keys[::3], "new"], 2)

    expected = dict.fromkeys(keys, 1) | dict.fromkeys((*keys[::3], "new"), 2)
    assert agreed_rows(peer, location) == sorted(expected.items())


@keys_of_files
@pytest.mark.parametrize("operation", ["bulk_insert", "insert"])
@pytest.mark.parametrize("kind", FilterType)
def test_filters_and_ranges_that_hudi_wrote_answer_rightly(
    peer: HudiPeer, location: Path, keys: list[str], operation: str, kind: FilterType
) -> None:
    """Its bulk insert writes Spark's rows, its insert Avro records."""
    table_of(location, **{"hoodie.bloom.index.filter.type": kind.value})
    theirs(peer, location, keys, 1, operation)

    absent = pa.array([f"{key}x" for key in keys])
    for file_keys, held in files(location):
        assert file_keys.filter is not None
        assert (file_keys.filter.kind, file_keys.filter.bits) == (
            kind,
            BloomOptions(30, 0.0001).bits,
        )
        assert file_keys.range is not None
        assert file_keys.might_contain(HashedKeys(held)).all()
        assert file_keys.filter.might_contain(absent).sum() < 3
    ours(location, [*keys[::3], "new"], 2)
    expected = dict.fromkeys(keys, 1) | dict.fromkeys((*keys[::3], "new"), 2)
    assert agreed_rows(peer, location) == sorted(expected.items())
