"""A metadata table as Apache Hudi leaves one after it was first made: `files` alone, one base file
(metadata page 1.2 and 2). For tables of ours, which no Hudi has to write first.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import fastavro

GZ, NONE = 1, 2
FIRST_INSTANT = "00000000000000000"
_CHECKED_BYTES = 16384
_KEY_TAIL = b"\0" + struct.pack(">q", 0x7FFFFFFFFFFFFFFF) + b"\4"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {
            "name": "filesystemMetadata",
            "type": [
                "null",
                {
                    "type": "map",
                    "values": {
                        "type": "record",
                        "name": "HoodieMetadataFileInfo",
                        "fields": [
                            {"name": "size", "type": "long"},
                            {"name": "isDeleted", "type": "boolean"},
                        ],
                    },
                },
            ],
        },
    ],
}
SCHEMA_JSON = json.dumps(SCHEMA)


def files_record(kind: int, listed: Mapping[str, tuple[int, bool]]) -> bytes:
    """The value of a record of `files`: (size, is deleted) by name."""
    entries = {name: {"size": size, "isDeleted": gone} for name, (size, gone) in listed.items()}
    datum = io.BytesIO()
    record = {"key": "", "type": kind, "filesystemMetadata": entries}
    fastavro.schemaless_writer(datum, fastavro.parse_schema(SCHEMA), record)
    return datum.getvalue()


def hfile(
    entries: Iterable[tuple[str, bytes]], *, codec: int = GZ, block_bytes: int = 300
) -> bytes:
    """An HFile as Hudi writes one, with blocks of about `block_bytes`."""
    content, index, count = bytearray(), [], 0
    for first, payload, held in _blocks(sorted(entries), block_bytes):
        index.append((len(content), first))
        content += _block(b"DATABLK*", payload, codec)
        count += held
    ends = ([offset for offset, _ in index] + [len(content)])[1:]
    root = b"".join(
        struct.pack(">qi", offset, end - offset) + _hadoop_int(2 + len(key)) + _row(key)
        for (offset, key), end in zip(index, ends, strict=True)
    )
    opened_at = len(content)
    content += _block(b"IDXROOT2", root, codec) + _block(b"IDXROOT2", b"", codec)
    info_at = len(content)
    content += _block(b"FILEINF2", _info({"schema": SCHEMA_JSON.encode()}), codec)
    fields = {1: info_at, 2: opened_at, 5: len(index), 6: 0, 7: count, 8: 1, 12: codec}
    return bytes(content) + trailer(fields)


def trailer(fields: Mapping[int, int], *, version: int = 3) -> bytes:
    """The last 4096 bytes of an HFile."""
    message = b"".join(_varint(number << 3) + _varint(value) for number, value in fields.items())
    head = b'TRABLK"$' + _varint(len(message)) + message
    return head.ljust(4092, b"\0") + version.to_bytes(4, "big")


def keep_files(table: Path, partitions: Mapping[str, Mapping[str, int]]) -> None:
    """Give the table in this directory a metadata table that lists these files with their sizes in
    bytes, by partition path.
    """
    metadata = table / ".hoodie" / "metadata"
    timeline = metadata / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (metadata / "files").mkdir()
    (timeline / f"{FIRST_INSTANT}_20200101000000000.deltacommit").write_bytes(b"{}")
    names = {
        path or ".": {name: (size, False) for name, size in files.items()}
        for path, files in partitions.items()
    }
    records = [(path, files_record(2, listed)) for path, listed in names.items()]
    records.append(("__all_partitions__", files_record(1, dict.fromkeys(names, (0, False)))))
    base = metadata / "files" / f"files-0000-0_0-0-0_{FIRST_INSTANT}.hfile"
    base.write_bytes(hfile(records))
    properties = table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.table.metadata.partitions=files\n")


def _blocks(
    entries: list[tuple[str, bytes]], block_bytes: int
) -> Iterable[tuple[bytes, bytes, int]]:
    """(first key, payload, entries) of each block."""
    payload, first, held = bytearray(), b"", 0
    for key, value in entries:
        if len(payload) >= block_bytes:
            yield first, bytes(payload), held
            payload, held = bytearray(), 0
        first = first if held else key.encode()
        whole = _row(key.encode()) + _KEY_TAIL
        payload += struct.pack(">ii", len(whole), len(value)) + whole + value + b"\0"
        held += 1
    if held:
        yield first, bytes(payload), held


def _block(magic: bytes, payload: bytes, codec: int) -> bytes:
    stored = gzip.compress(payload, mtime=0) if codec == GZ else payload
    whole = 33 + len(stored)
    checksums = bytes(4 * -(-whole // _CHECKED_BYTES))
    sizes = (len(stored) + len(checksums), len(payload), -1, 0, _CHECKED_BYTES, whole)
    return magic + struct.pack(">iiqbii", *sizes) + stored + checksums


def _info(entries: Mapping[str, bytes]) -> bytes:
    message = b""
    for name, value in entries.items():
        pair = _field(1, name.encode()) + _field(2, value)
        message += _field(1, pair)
    return b"PBUF" + _varint(len(message)) + message


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _row(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _hadoop_int(number: int) -> bytes:
    if number <= 127:
        return bytes([number])
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return struct.pack("b", -112 - len(digits)) + digits
