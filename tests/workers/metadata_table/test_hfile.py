"""HFiles of the metadata table: those that Apache Hudi wrote, and whatever bytes stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from tests.support.metadata_tables import GZ, NONE, SCHEMA_JSON, files_record, hfile, trailer
from workers.errors import MalformedTable, UnsupportedTable
from workers.metadata_table.files_partition import FilesRecord
from workers.metadata_table.hfile import HFile, read_hadoop_int, read_message, read_varint

KEYS = [f"city={'x' * (number % 150)}{number:03d}" for number in range(200)]
"""Some are longer than 126 bytes, from which on an index says the length in two bytes."""
ENTRIES = [(key, files_record(2, {f"{key}.parquet": (len(key), False)})) for key in KEYS]


@pytest.mark.parametrize("codec", [GZ, NONE])
@pytest.mark.parametrize("block_bytes", [1, 300, 1 << 20])
def test_entries_of_all_blocks_come_in_order(codec: int, block_bytes: int) -> None:
    file = HFile.parse(hfile(ENTRIES, codec=codec, block_bytes=block_bytes))
    assert list(file.iterate_entries()) == sorted(ENTRIES)
    assert (file.entry_count, file.schema) == (len(ENTRIES), SCHEMA_JSON)


def test_file_without_entries_is_one() -> None:
    file = HFile.parse(hfile([]))
    assert (list(file.iterate_entries()), file.entry_count) == ([], 0)


@pytest.mark.skipif(not ARCHIVES, reason=MISSING)
@pytest.mark.parametrize("name", ["mor-avro-v8_trips_8i3u1d", "mor-avro-v9_txns_simple_meta"])
def test_files_of_hudi_are_read_whole(name: str, tmp_path: Path) -> None:
    table = unpacked(golden_archive(name), tmp_path)
    paths = sorted((table / ".hoodie" / "metadata").rglob("*.hfile"))
    assert len(paths) >= 20
    for path in paths:
        file = HFile.parse(path.read_bytes())
        keys = [key.encode() for key, _ in file.iterate_entries()]
        assert keys == sorted(set(keys))
        assert len(keys) == file.entry_count
        assert keys[:1] in ([], [file.info["minRecordKey"]])
        assert keys[-1:] in ([], [file.info["maxRecordKey"]])


def test_every_cut_of_a_file_is_named() -> None:
    content = hfile(ENTRIES[:12])
    for end in range(0, len(content), 7):
        with pytest.raises(MalformedTable):
            list(HFile.parse(content[:end]).iterate_entries())


@pytest.mark.parametrize("codec", [GZ, NONE])
def test_flipped_bytes_never_escape_as_another_error(codec: int) -> None:
    content = hfile(ENTRIES[:12], codec=codec)
    refused = 0
    for at in range(len(content) - 3800):
        damaged = bytearray(content)
        damaged[at] ^= 0xFF
        try:
            entries = list(HFile.parse(bytes(damaged)).iterate_entries())
            [FilesRecord.decode(value, SCHEMA_JSON) for _, value in entries]
        except (MalformedTable, UnsupportedTable):
            refused += 1
    assert refused > len(content) // 10


def test_block_that_inflates_to_more_than_it_says_is_refused() -> None:
    content = bytearray(hfile([("k", bytes(1 << 20))]))
    content[12:16] = (100).to_bytes(4, "big")
    with pytest.raises(MalformedTable, match="longer than it says"):
        list(HFile.parse(bytes(content)).iterate_entries())


def test_lost_entries_are_noticed() -> None:
    file = HFile.parse(hfile(ENTRIES))
    fewer = HFile(file.content, file.trailer, file.blocks[:-1], file.info)
    with pytest.raises(MalformedTable, match="another number of entries"):
        list(fewer.iterate_entries())


@pytest.mark.parametrize(
    ("fields", "version", "why"),
    [
        ({12: 3}, 3, "compressed in a way"),
        ({12: GZ, 8: 2}, 3, "several levels"),
        ({12: GZ}, 2, "unread version"),
    ],
)
def test_other_kinds_are_refused_by_name(fields: dict[int, int], version: int, why: str) -> None:
    with pytest.raises(UnsupportedTable, match=why):
        HFile.parse(trailer(fields, version=version))


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x90", -112),
        (b"\x8f\x80", 128),
        (b"\x8e\x01\x00", 256),
        (b"\x87\x70", -113),
        (b"\x86\x01\x00", -257),
    ],
)
def test_hadoops_numbers(written: bytes, number: int) -> None:
    assert read_hadoop_int(written, 0) == (number, len(written))


@pytest.mark.parametrize("written", [b"", b"\x8e\x01", b"\x8e"])
def test_numbers_that_are_cut_off_are_errors(written: bytes) -> None:
    with pytest.raises(ValueError, match="cut off"):
        read_hadoop_int(written, 0)
    with pytest.raises(ValueError, match="cut off"):
        read_varint(written[:1], 0)


def test_number_without_an_end_and_unknown_fields_are_errors() -> None:
    with pytest.raises(ValueError, match="too long"):
        read_varint(b"\xff" * 20, 0)
    with pytest.raises(ValueError, match="unknown kind"):
        list(read_message(b"\x0d\x00"))
