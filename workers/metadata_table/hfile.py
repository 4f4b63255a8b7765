"""HFile, version 3: sorted keys and values in blocks, as the metadata table stores its records
(metadata page 2).

The last 4096 bytes are the trailer. It has the offset of the index of blocks, which is followed by
the index of meta blocks and the file's information. Checksums are not verified: Hudi writes none,
and a compressed block carries its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from workers.errors import MalformedTable, UnsupportedTable

_TRAILER_BYTES: Final = 4096
_TRAILER_MAGIC: Final = b'TRABLK"$'
_VERSION: Final = 3
_INFO_MAGIC: Final = b"PBUF"
_SCHEMA: Final = "schema"
_BLOCK_HEAD: Final = struct.Struct(">8siiqbii")
_INDEX_HEAD: Final = struct.Struct(">qi")
_ENTRY_HEAD: Final = struct.Struct(">ii")
_ROW_HEAD: Final = struct.Struct(">h")
_GZIP_MEMBER: Final = 16 + zlib.MAX_WBITS
_BLOCK_BYTES_MAX: Final = 256 << 20
"""Uncompressed; Hudi closes a block at 1 MiB, behind an entry of any length."""
_SIGN: Final = 0x80
_BITS_MAX: Final = 63
_ONE_BYTE_MIN: Final = -112
_NEGATIVE: Final = -120
"""Heads down to here announce the bytes of a number that is not negative."""


class TrailerField(IntEnum):
    """The trailer's numbers by their field, of those that are read."""

    INFO_AT = 1
    INDEX_AT = 2
    BLOCKS = 5
    ENTRIES = 7
    INDEX_LEVELS = 8
    CODEC = 12


class HFileCodec(IntEnum):
    """How blocks are compressed, by the number in the trailer; Hudi writes these two."""

    GZ = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class HFile:
    """One file, or the content of a log block, of which the trailer, the index and the file's
    information were read. `entries` reads the rest.
    """

    content: bytes
    trailer: Mapping[int, int]
    """Fields of the trailer by their number, of those that are numbers."""
    blocks: tuple[int, ...]
    """Where each data block begins, in the order of their keys."""
    info: Mapping[str, bytes]

    @classmethod
    def parse(cls, content: bytes) -> HFile:
        """Parse a whole file. Raises MalformedTable, UnsupportedTable for another version, codec or
        index than Hudi writes.
        """
        with _readable():
            trailer = _trailer(content)
            _check_kind(trailer)
            codec = HFileCodec(trailer[TrailerField.CODEC])
            index = _block(content, codec, trailer[TrailerField.INDEX_AT], b"IDXROOT2")
            info = _block(content, codec, trailer[TrailerField.INFO_AT], b"FILEINF2")
            blocks = tuple(_index(index, trailer.get(TrailerField.BLOCKS, 0)))
            return cls(content, trailer, blocks, dict(_info(info)))

    @property
    def entry_count(self) -> int:
        """The number of entries that the trailer announces."""
        return self.trailer.get(TrailerField.ENTRIES, 0)

    @property
    def schema(self) -> str | None:
        """Avro JSON of the values; None if the file does not contain it."""
        text = self.info.get(_SCHEMA)
        return None if text is None else text.decode()

    def iterate_entries(self) -> Iterator[tuple[str, bytes]]:
        """Key and value of each, ascending by the keys' bytes. Raises MalformedTable."""
        codec = HFileCodec(self.trailer[TrailerField.CODEC])
        count = 0
        for offset in self.blocks:
            with _readable():
                entries = list(_entries(_block(self.content, codec, offset, b"DATABLK*")))
            count += len(entries)
            yield from entries
        if count != self.entry_count:
            raise MalformedTable(
                "HFile has another number of entries than its trailer", entries=count
            )


def _block(content: bytes, codec: HFileCodec, offset: int, kind: bytes) -> bytes:
    """The payload of the block at `offset`."""
    magic, _, length, _, _, _, whole = _BLOCK_HEAD.unpack_from(content, offset)
    if magic != kind or whole < _BLOCK_HEAD.size or not 0 <= length <= _BLOCK_BYTES_MAX:
        raise ValueError(f"no block {kind!r} at {offset}")
    stored = content[offset + _BLOCK_HEAD.size : offset + whole]
    payload = _decompress(stored, length) if codec is HFileCodec.GZ else stored
    if len(payload) != length:
        raise ValueError(f"block at {offset} has another length than its header")
    return payload


def _decompress(stored: bytes, length: int) -> bytes:
    unpacking = zlib.decompressobj(_GZIP_MEMBER)
    payload = unpacking.decompress(stored, length + 1)
    if not unpacking.eof:
        raise ValueError("block is cut off, or longer than it says")
    return payload


def _trailer(content: bytes) -> dict[int, int]:
    trailer = content[-_TRAILER_BYTES:]
    if len(trailer) < _TRAILER_BYTES or not trailer.startswith(_TRAILER_MAGIC):
        raise MalformedTable("HFile has no trailer")
    if (version := int.from_bytes(trailer[-3:], "big")) != _VERSION:
        raise UnsupportedTable("HFile is of an unread version", version=version)
    length, at = read_varint(trailer, len(_TRAILER_MAGIC))
    fields = read_message(trailer[at : at + length])
    return {number: value for number, value in fields if isinstance(value, int)}


def _check_kind(trailer: Mapping[int, int]) -> None:
    if (codec := trailer.get(TrailerField.CODEC)) not in tuple(HFileCodec):
        raise UnsupportedTable("HFile is compressed in a way that is not read", codec=codec)
    if (levels := trailer.get(TrailerField.INDEX_LEVELS, 1)) > 1:
        raise UnsupportedTable("HFile has an index of several levels", levels=levels)


def _index(payload: bytes, count: int) -> Iterator[int]:
    at = 0
    for _ in range(count):
        offset, _ = _INDEX_HEAD.unpack_from(payload, at)
        key_length, at = read_hadoop_int(payload, at + _INDEX_HEAD.size)
        at += key_length
        yield offset


def _info(payload: bytes) -> Iterator[tuple[str, bytes]]:
    if not payload.startswith(_INFO_MAGIC):
        raise ValueError("file information has no head")
    length, at = read_varint(payload, len(_INFO_MAGIC))
    for _, pair in read_message(payload[at : at + length]):
        fields = dict(read_message(_bytes(pair)))
        yield _bytes(fields[1]).decode(), _bytes(fields.get(2, b""))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("field is a number where bytes are due")
    return value


def _entries(payload: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(payload):
        key_length, value_length = _ENTRY_HEAD.unpack_from(payload, at)
        at += _ENTRY_HEAD.size
        (row_length,) = _ROW_HEAD.unpack_from(payload, at)
        row = payload[at + _ROW_HEAD.size : at + _ROW_HEAD.size + row_length]
        value_at = at + key_length
        at = value_at + value_length
        if min(key_length, value_length, row_length) < 0 or at > len(payload):
            raise ValueError("entry leaves its block")
        yield row.decode(), payload[value_at:at]
        _, at = read_hadoop_int(payload, at)


@contextmanager
def _readable() -> Iterator[None]:
    """Turn any error of the parser into MalformedTable."""
    try:
        yield
    except (ValueError, KeyError, struct.error, zlib.error) as error:
        raise MalformedTable("HFile is not readable", why=str(error)) from error


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the lowest first. Return it and the position
    behind it.
    """
    number = shift = 0
    while True:
        byte = _byte(content, at)
        number |= (byte & ~_SIGN) << shift
        at, shift = at + 1, shift + 7
        if not byte & _SIGN:
            return number, at
        if shift > _BITS_MAX:
            raise ValueError("number is too long")


def read_hadoop_int(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of one byte, from -112 to 127, or of a head with the count of bytes that
    follow, highest first. Return it and the position behind it.
    """
    head = _byte(content, at)
    head -= (head & _SIGN) << 1
    at += 1
    if head >= _ONE_BYTE_MIN:
        return head, at
    is_negative = head < _NEGATIVE
    length = (_NEGATIVE if is_negative else _ONE_BYTE_MIN) - head
    digits = content[at : at + length]
    if len(digits) < length:
        raise ValueError("number is cut off")
    number = int.from_bytes(digits, "big")
    return ~number if is_negative else number, at + length


def read_message(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, number or bytes) of each field of a Protocol Buffers message. HFiles contain
    no other kinds of fields.
    """
    at = 0
    while at < len(content):
        tag, at = read_varint(content, at)
        number, at = read_varint(content, at)
        match tag & 7:
            case 0:
                yield tag >> 3, number
            case 2:
                if at + number > len(content):
                    raise ValueError("field is cut off")
                yield tag >> 3, content[at : at + number]
                at += number
            case kind:
                raise ValueError(f"field is of the unknown kind {kind}")


def _byte(content: bytes, at: int) -> int:
    if at >= len(content):
        raise ValueError("number is cut off")
    return content[at]
