"""Partitions: a directory counts once it says so, and says so once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.counted_storage import CountedStorage
from tests.workers.files.conftest import OpenGolden
from workers.files.partition import (
    METADATA_NAME,
    ensure_partition,
    files_by_partition,
    is_partition,
    list_partitions,
    names_by_partition,
)
from workers.files.properties import parse_properties
from workers.storage.base import join
from workers.storage.local import LocalStorage

FIRST, SECOND = "20260101000000001", "20260101000000002"


@pytest.mark.parametrize(("partition", "depth"), [("", "0"), ("a", "1"), ("y=1/m=2", "2")])
def test_the_first_writer_of_a_partition_names_itself_and_the_next_changes_nothing(
    storage: LocalStorage, partition: str, depth: str
) -> None:
    ensure_partition(storage, partition, FIRST)
    ensure_partition(storage, partition, SECOND)

    metadata = parse_properties(storage.read(join(partition, METADATA_NAME)))

    assert metadata == {"commitTime": FIRST, "partitionDepth": depth}
    assert is_partition(storage, partition)


def test_directories_that_no_writer_claimed_are_not_partitions(storage: LocalStorage) -> None:
    ensure_partition(storage, "region=eu/day=2", FIRST)
    ensure_partition(storage, "region=apac/day=1", FIRST)
    storage.put("stray/file.parquet", b"")
    storage.put(f".hoodie/metadata/files/{METADATA_NAME}", b"")
    storage.put(f".hidden/{METADATA_NAME}", b"")

    assert list_partitions(storage) == ["region=apac/day=1", "region=eu/day=2"]
    assert list(names_by_partition(storage)) == list(files_by_partition(storage))
    assert list(names_by_partition(storage)) == list_partitions(storage)


@pytest.mark.parametrize("name", [METADATA_NAME, f"{METADATA_NAME}.parquet"])
def test_names_come_with_the_partition_that_has_them(storage: LocalStorage, name: str) -> None:
    storage.put(join("day=1", name), b"")
    storage.put("day=1/one.parquet", b"1")
    storage.put(f"day=1/below/{name}", b"")  # What is below a partition is none.

    assert sorted(names_by_partition(storage)["day=1"]) == [name, "one.parquet"]
    assert [file.size for file in files_by_partition(storage)["day=1"]] == [0, 1]
    assert list(names_by_partition(storage)) == ["day=1"]


def test_each_partition_is_looked_at_once(tmp_path: Path) -> None:
    storage = CountedStorage(tmp_path)
    for number in range(20):
        ensure_partition(storage, f"region={number % 4}/day={number}", FIRST)
    storage.calls.clear()

    assert len(names_by_partition(storage)) == 20

    # The table and its four regions are asked for files and then for directories.
    assert storage.calls == {"list_names": 20 + 5, "list_directories": 5}


def test_a_table_without_partition_columns_is_its_own_partition(storage: LocalStorage) -> None:
    assert list_partitions(storage) == []
    assert names_by_partition(storage) == {}
    ensure_partition(storage, "", FIRST)

    assert list_partitions(storage) == [""]
    assert names_by_partition(storage) == {"": [METADATA_NAME]}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("mor-avro-v9_txns_simple_meta", ["region=apac", "region=eu", "region=us"]),
        ("mor-avro-v9_txns_nonpart_nometa", [""]),
        ("cow-v6_simplekeygen_nonhivestyle", ["10", "20", "30"]),
        ("cow-v6_empty", []),
        (
            "cow-v8_complexkeygen_hivestyle",
            [
                "byteField=10/shortField=300",
                "byteField=20/shortField=100",
                "byteField=30/shortField=100",
            ],
        ),
    ],
)
def test_the_partitions_that_hudi_made_are_found(
    golden: OpenGolden, table: str, expected: list[str]
) -> None:
    assert list_partitions(golden(table)) == expected
    assert list(names_by_partition(golden(table))) == expected
