"""Blocks of a log file: their bytes, and the meaning of each kind (format page 5.2 to 5.7).

Written and read are Parquet and Avro data blocks, delete blocks and rollback commands. A kind that
the engine cannot merge is rejected by name rather than skipped: otherwise its rows would be missing
silently.
"""

from __future__ import annotations

import functools
import io
import json
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable, UnsupportedTable
from workers.files.avro_container import parse_schema
from workers.files.avro_encode import binary, encode_rows, get_lengths, join_parts, to_bytes
from workers.files.avro_schema import arrow_fields, parse_record, record_of_json
from workers.files.base_file import AVRO_SCHEMA_KEY, UNREADABLE, Codec, read_parquet, write_parquet
from workers.files.delete_record import DELETE_LIST, DeleteRecord
from workers.json_text import read_json

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
CONTENT_VERSION = 3
_KEPT_LOGICAL = "decimal"


class BlockType(IntEnum):
    """The kinds of log blocks by their number on disk (format page 5.2)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Entries of a block's header by their number on disk (format page 5.2)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


Header = dict[int, str]


@dataclass(frozen=True, slots=True)
class ParquetData:
    """A data block of Parquet rows, decoded when they are asked for (format page 5.4)."""

    instant: InstantTime
    is_partial: bool
    avro_schema: str
    """JSON of the block's columns, meta columns included; a narrow block has a few."""
    content: memoryview

    @property
    def field_names(self) -> list[str]:
        """Return the block's columns in order, meta columns included. Raises MalformedTable."""
        return _field_names(self.avro_schema)

    def table(self, columns: Collection[str] | None = None) -> pa.Table:
        """Return the rows, with those of `columns` that the block has. Raises MalformedTable."""
        try:
            names = None if columns is None else sorted(columns)
            return read_parquet(pa.BufferReader(pa.py_buffer(self.content)), names)
        except UNREADABLE as error:
            raise MalformedTable("log block is not parquet", instant=self.instant) from error


@dataclass(frozen=True, slots=True)
class AvroData:
    """A data block of Avro rows, decoded when they are asked for (format page 5.3)."""

    instant: InstantTime
    is_partial: bool
    avro_schema: str
    content: memoryview

    @property
    def field_names(self) -> list[str]:
        """Return the block's columns in order, meta columns included. Raises MalformedTable."""
        return _field_names(self.avro_schema)

    def table(self, columns: Collection[str] | None = None) -> pa.Table:
        """Return the rows, with those of `columns` that the block has.

        Raises MalformedTable, UnsupportedTable for a type that Arrow columns cannot hold.
        """
        tree = parse_record(record_of_json(self.avro_schema))
        chosen = [field for field in tree.fields if columns is None or field.name in columns]
        schema = pa.schema(arrow_fields(tuple(chosen)))
        try:
            rows = list(_avro_rows(bytes(self.content), _physical(self.avro_schema)))
            return pa.Table.from_pylist(rows, schema=schema)
        except Exception as error:  # fastavro raises what it stumbled on
            raise MalformedTable("log block is not avro", instant=self.instant) from error


@dataclass(frozen=True, slots=True)
class HFileData:
    """A data block of the metadata table, whose content is a whole HFile (metadata page 2.1)."""

    instant: InstantTime
    avro_schema: str
    """JSON of the values' schema."""
    content: memoryview


@dataclass(frozen=True, slots=True)
class Deletes:
    """A delete block: keys of the file group that `instant` deleted (format page 5.5)."""

    instant: InstantTime
    records: tuple[DeleteRecord, ...]


@dataclass(frozen=True, slots=True)
class Rollback:
    """A rollback command: blocks of `target` before this one do not count."""

    instant: InstantTime
    target: InstantTime


LogBlock = ParquetData | AvroData | Deletes | Rollback
MetadataBlock = HFileData | Deletes | Rollback


def encode_parquet_block(
    table: pa.Table,
    *,
    instant: InstantTime,
    avro_schema: Mapping[str, Any],
    is_partial: bool = False,
    codec: Codec = "zstd",
    level: int | None = 1,
) -> bytes:
    """Encode a whole block of `table`, which has its meta columns; `avro_schema` lists its columns,
    except those at the end that only we read.
    """
    names = [field["name"] for field in avro_schema["fields"]]
    assert names == table.column_names[: len(names)], table.schema
    avro_json = json.dumps(avro_schema, separators=(",", ":"))
    content = io.BytesIO()
    write_parquet(content, table, footer={AVRO_SCHEMA_KEY: avro_json}, codec=codec, level=level)
    header: Header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: avro_json}
    if is_partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    return encode_block(BlockType.PARQUET_DATA, header, content.getvalue())


def encode_avro_block(
    table: pa.Table,
    *,
    instant: InstantTime,
    avro_schema: Mapping[str, Any],
    is_partial: bool = False,
) -> bytes:
    """Encode a whole block like `encode_parquet_block`, with Avro datums. Raises InvalidInput,
    UnsupportedTable.
    """
    header: Header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.SCHEMA: json.dumps(avro_schema, separators=(",", ":")),
    }
    if is_partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    datums = encode_rows(table, avro_schema)
    lengths = get_lengths(datums).astype(">i4")
    heads = binary(np.full(len(lengths), lengths.itemsize), lengths.view(np.uint8))
    content = struct.pack(">ii", CONTENT_VERSION, table.num_rows)
    content += to_bytes(join_parts(heads, datums))
    return encode_block(BlockType.AVRO_DATA, header, content)


def encode_delete_block(records: Iterable[DeleteRecord], *, instant: InstantTime) -> bytes:
    """Encode a whole delete block of version 3, from its magic to its last length (format page
    5.5).
    """
    rows = {"deleteRecordList": [record.to_avro() for record in records]}
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, parse_schema(DELETE_LIST), rows)
    content = struct.pack(">ii", CONTENT_VERSION, len(datum.getvalue())) + datum.getvalue()
    return encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)


def encode_block(kind: BlockType, header: Header, content: bytes) -> bytes:
    """Encode a block around `content`, from its magic to its last length (format page 5.2)."""
    body = b"".join(
        (
            struct.pack(">ii", FORMAT_VERSION, kind),
            _encode_map(header),
            struct.pack(">q", len(content)),
            content,
            _encode_map({}),
        )
    )
    size = len(body) + 8  # Counts the trailing length, but neither the magic nor itself.
    return b"".join((MAGIC, struct.pack(">q", size), body, struct.pack(">q", size + len(MAGIC))))


def _encode_map(entries: Header) -> bytes:
    parts = [struct.pack(">i", len(entries))]
    for key, value in entries.items():
        text = value.encode()
        parts.append(struct.pack(">ii", key, len(text)) + text)
    return b"".join(parts)


def decode_body(body: memoryview) -> LogBlock | None:
    """Decode a framed block; `body` is between the two lengths.

    Returns None for a block that is marked as corrupt. Raises MalformedTable, UnsupportedTable.
    """
    return _decode_content(*_decode_frame(body))


def decode_metadata_body(body: memoryview) -> MetadataBlock | None:
    """Decode a framed block of a log file of the metadata table. Raises MalformedTable,
    UnsupportedTable.
    """
    kind, header, content = _decode_frame(body)
    if kind == BlockType.HFILE_DATA:
        instant, _, avro_schema = _data_header(header)
        return HFileData(instant, avro_schema, content)
    block = _decode_content(kind, header, content)
    if isinstance(block, ParquetData | AvroData):
        raise UnsupportedTable(
            "block of the metadata table is not an HFile", kind=BlockType(kind).name
        )
    return block


def decode_archive_body(body: memoryview) -> list[dict[str, Any]]:
    """Decode the records of a block of the archived timeline, whose header names no instant.

    Raises MalformedTable, UnsupportedTable.
    """
    kind, header, content = _decode_frame(body)
    if kind != BlockType.AVRO_DATA:
        raise MalformedTable("block of the archived timeline is not avro", kind=kind)
    schema = parse_schema(_entry(header, HeaderKey.SCHEMA))
    try:
        return list(_avro_rows(bytes(content), schema))
    except Exception as error:  # fastavro raises what it stumbled on
        raise MalformedTable("block of the archived timeline is not readable") from error


def _decode_frame(body: memoryview) -> tuple[int, Header, memoryview]:
    try:
        version, kind = struct.unpack_from(">ii", body)
        header, at = _decode_map(body, 8)
        (length,) = struct.unpack_from(">q", body, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedTable("log block header is not readable") from error
    content = body[at + 8 : at + 8 + length]
    if length < 0 or len(content) != length:
        raise MalformedTable("log block is shorter than its length", content_bytes=length)
    if version != FORMAT_VERSION:
        raise UnsupportedTable("log block has an unknown format version", version=version)
    return kind, header, content


def _decode_map(body: memoryview, at: int) -> tuple[Header, int]:
    (count,) = struct.unpack_from(">i", body, at)
    at += 4
    entries: Header = {}
    for _ in range(count):
        key, length = struct.unpack_from(">ii", body, at)
        at += 8
        if length < 0 or at + length > len(body):
            raise struct.error("header value leaves the block")
        entries[key] = bytes(body[at : at + length]).decode()
        at += length
    return entries, at


def _decode_content(kind: int, header: Header, content: memoryview) -> LogBlock | None:
    match kind:
        case BlockType.PARQUET_DATA:
            return ParquetData(*_data_header(header), content)
        case BlockType.AVRO_DATA:
            return AvroData(*_data_header(header), content)
        case BlockType.DELETE:
            return Deletes(_entry(header, HeaderKey.INSTANT_TIME), _decode_deletes(content))
        case BlockType.COMMAND:
            return _decode_command(header)
        case BlockType.CORRUPT:
            return None
        case BlockType.HFILE_DATA | BlockType.CDC_DATA:
            raise UnsupportedTable("log block kind is not supported", kind=BlockType(kind).name)
        case _:
            raise UnsupportedTable("log block kind is not known", kind=kind)


def _data_header(header: Header) -> tuple[InstantTime, bool, str]:
    if HeaderKey.COMPACTED_BLOCK_TIMES in header:
        raise UnsupportedTable("log compaction is not supported")
    is_partial = header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"
    return _entry(header, HeaderKey.INSTANT_TIME), is_partial, _entry(header, HeaderKey.SCHEMA)


def _entry(header: Header, key: HeaderKey) -> str:
    try:
        return header[key]
    except KeyError as error:
        raise MalformedTable("log block header lacks an entry", entry=key.name) from error


def _decode_command(header: Header) -> Rollback:
    command = header.get(HeaderKey.COMMAND_BLOCK_TYPE)
    if command != "0":
        raise UnsupportedTable("log command is not a rollback", command=command)
    target = _entry(header, HeaderKey.TARGET_INSTANT_TIME)
    return Rollback(_entry(header, HeaderKey.INSTANT_TIME), target)


def _decode_deletes(content: memoryview) -> tuple[DeleteRecord, ...]:
    try:
        version, length = struct.unpack_from(">ii", content)
    except struct.error as error:
        raise MalformedTable("delete block has no content") from error
    if version != CONTENT_VERSION:
        raise UnsupportedTable("delete block is of an unread version", version=version)
    try:
        datum = io.BytesIO(content[8 : 8 + length])
        delete_list: Any = fastavro.schemaless_reader(
            datum, parse_schema(DELETE_LIST), None, return_record_name=True
        )
        return tuple(DeleteRecord.from_avro(row) for row in delete_list["deleteRecordList"])
    except Exception as error:  # fastavro raises what it stumbled on
        raise MalformedTable("delete block is not readable") from error


def _field_names(avro_json: str) -> list[str]:
    return [str(field["name"]) for field in record_of_json(avro_json)["fields"]]


def _avro_rows(content: bytes, schema: Any) -> Iterable[Any]:
    version, count = struct.unpack_from(">ii", content)
    if not 1 <= version <= CONTENT_VERSION:
        raise MalformedTable("avro block has an unknown version", version=version)
    at = 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        at += 4
        if length < 0 or at + length > len(content):
            raise MalformedTable("avro record leaves the block", length=length)
        yield fastavro.schemaless_reader(io.BytesIO(content[at : at + length]), schema, None)
        at += length


@functools.lru_cache(maxsize=64)
def _physical(avro_json: str) -> Any:
    """Return the schema whose dates and times stay bare numbers: Arrow accepts them, past year 9999
    too.
    """
    return parse_schema(json.dumps(_without_logical(read_json(avro_json))))


def _without_logical(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_logical(member) for member in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        key: _without_logical(value) if key in ("type", "fields", "items", "values") else value
        for key, value in avro.items()
        if key != "logicalType" or value == _KEPT_LOGICAL
    }
