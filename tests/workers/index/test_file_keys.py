"""What a footer tells of a file's keys, and that nothing but the footer is read for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.errors import InvalidInput, MalformedTable, NotFound
from workers.files.base_file import read_base_file, write_base_parts
from workers.files.key_range import KeyRange
from workers.files.meta_columns import with_meta_columns
from workers.index.bloom_filter import BloomFilter, BloomFilterBuilder, HashedKeys
from workers.index.file_keys import read_file_keys
from workers.options.bloom_options import BloomOptions, FilterType
from workers.storage.local import LocalStorage

PATH = "file.parquet"
SMALL = BloomOptions(10, 0.001, entries_max=20)
KEYS = [f"key-{number:03}" for number in range(25)]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def part(keys: list[str]) -> pa.Table:
    column = pa.array(keys, pa.string())
    return with_meta_columns(
        pa.table({"id": column}),
        instant="20260101000000001",
        keys=column,
        partition="",
        file_name=PATH,
        task_partition=0,
    )


def write(
    storage: LocalStorage, *parts: list[str], options: BloomOptions | None = SMALL
) -> dict[bytes, bytes]:
    """The footer as Parquet's own reader has it."""
    key_filter = BloomFilterBuilder(options) if options else None
    write_base_parts(storage, PATH, map(part, parts), avro_schema={}, key_filter=key_filter)
    with storage.open_data(PATH) as stream:
        return pq.read_metadata(stream).metadata or {}


def test_the_footer_has_hudis_keys_and_the_filter_of_all_parts_in_their_order(
    storage: LocalStorage,
) -> None:
    footer = write(storage, KEYS[:7], [], KEYS[7:])

    expected = BloomFilter.of_keys(pa.array(KEYS), SMALL).to_text().encode()
    assert footer[b"org.apache.hudi.bloomfilter"] == expected
    assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
    assert footer[b"hoodie_min_record_key"] == b"key-000"
    assert footer[b"hoodie_max_record_key"] == b"key-024"
    assert read_base_file(storage, PATH, ["id"]).column("id").to_pylist() == KEYS


def test_a_file_answers_by_range_and_by_filter(storage: LocalStorage) -> None:
    write(storage, KEYS)
    probes = pa.array([*KEYS, "key-0005", "key-9", "a", "key-010x"])

    file_keys = read_file_keys(storage, PATH)

    assert file_keys.range == KeyRange("key-000", "key-024")
    assert file_keys.might_contain(HashedKeys(probes)).tolist() == [True] * 25 + [False] * 4
    assert file_keys.might_contain(HashedKeys(probes[:0])).tolist() == []
    assert file_keys.might_contain(HashedKeys(pa.array(["z"]))).tolist() == [False]


def test_a_file_without_a_filter_answers_by_its_range(storage: LocalStorage) -> None:
    footer = write(storage, KEYS, options=None)

    file_keys = read_file_keys(storage, PATH)

    assert file_keys.filter is None
    assert b"org.apache.hudi.bloomfilter" not in footer
    assert file_keys.might_contain(HashedKeys(pa.array(["key-0005", "z"]))).tolist() == [
        True,
        False,
    ]


def test_a_file_without_rows_holds_no_key(storage: LocalStorage) -> None:
    write(storage, [])

    file_keys = read_file_keys(storage, PATH)

    assert file_keys.range is None
    assert not file_keys.might_contain(HashedKeys(pa.array(KEYS))).any()


def test_a_file_whose_footer_tells_nothing_may_hold_every_key(storage: LocalStorage) -> None:
    with storage.create_data(PATH) as stream:
        pq.write_table(part(KEYS), stream)

    file_keys = read_file_keys(storage, PATH)

    assert (file_keys.range, file_keys.filter) == (None, None)
    assert file_keys.might_contain(HashedKeys(pa.array(["a", "b"]))).all()


@pytest.mark.parametrize("name", ["org.apache.hudi.bloomfilter", "com.uber.hoodie.bloomfilter"])
def test_a_filter_of_an_old_writer_is_a_simple_one(storage: LocalStorage, name: str) -> None:
    text = BloomFilter.of_keys(pa.array(KEYS), BloomOptions(25, 0.001, FilterType.SIMPLE)).to_text()
    with storage.create_data(PATH) as stream, pq.ParquetWriter(stream, part(KEYS).schema) as file:
        file.add_key_value_metadata({name: text})

    key_filter = read_file_keys(storage, PATH).filter

    assert key_filter is not None
    assert key_filter.kind is FilterType.SIMPLE
    assert key_filter.might_contain(pa.array(KEYS)).all()


def test_a_damaged_filter_is_refused_by_its_files_name_when_it_is_needed(
    storage: LocalStorage,
) -> None:
    with storage.create_data(PATH) as stream, pq.ParquetWriter(stream, part(KEYS).schema) as file:
        file.add_key_value_metadata({"org.apache.hudi.bloomfilter": "AAAA"})

    file_keys = read_file_keys(storage, PATH)

    with pytest.raises(MalformedTable, match=r"path=file\.parquet"):
        file_keys.might_contain(HashedKeys(pa.array(KEYS)))


def test_a_torn_file_is_named_and_a_missing_one_is_missing(storage: LocalStorage) -> None:
    write(storage, KEYS)
    storage.put("torn.parquet", storage.read(PATH)[:-20])

    with pytest.raises(MalformedTable, match=r"torn\.parquet"):
        read_file_keys(storage, "torn.parquet")
    with pytest.raises(NotFound):
        read_file_keys(storage, "gone.parquet")


def test_a_key_that_no_filter_takes_ends_the_writing_of_the_file(storage: LocalStorage) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        write(storage, ["a", ""])
