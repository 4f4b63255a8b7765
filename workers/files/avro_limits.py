"""Limits for Avro schemas and containers of other writers (threat T20).

A schema comes with the file, so the file decides what its bytes mean. Where the items of an array
take no byte, ten bytes could describe as many of them as memory holds; a compressed block could be
a thousand times its size. Both are rejected before anything is decoded.
"""

from __future__ import annotations

import functools
import io
import zlib
from collections.abc import Mapping
from typing import Any, Final

from workers.errors import MalformedTable
from workers.json_text import read_json

SCHEMA_CHARS_MAX: Final = 4 << 20
NODES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
INFLATED_BYTES_MAX: Final = 256 << 20
"""The limit for the blocks of one container."""
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_NOTHING: Final = frozenset({"null"})


def parse_limited_schema(text: str) -> Any:
    """Parse the JSON of a schema. Raises MalformedTable, and ValueError for invalid JSON."""
    if len(text) > SCHEMA_CHARS_MAX:
        raise MalformedTable("avro schema is too long", chars=len(text))
    avro = read_json(text)
    _Walk().is_zero_width(avro, 0)
    return avro


@functools.lru_cache(maxsize=64)
def _check_schema(text: bytes) -> None:
    """Check a schema, of which a table's files have a few. Raises MalformedTable."""
    try:
        parse_limited_schema(text.decode())
    except ValueError as error:
        raise MalformedTable("avro container's schema is not valid JSON") from error


class _Walk:
    """A walk that remembers for each named type whether its values take no byte."""

    def __init__(self) -> None:
        self._named: dict[str, bool] = {}
        self._nodes = 0

    def is_zero_width(self, avro: Any, depth: int) -> bool:
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            raise MalformedTable("avro schema is too large", depth=depth, nodes=self._nodes)
        match avro:
            case str():
                return avro in _NOTHING or self._named.get(avro.rpartition(".")[2], False)
            case list():  # A union's branch is named by a byte.
                for branch in avro:
                    self.is_zero_width(branch, depth + 1)
                return False
            case {"type": "array", "items": below} | {"type": "map", "values": below}:
                if self.is_zero_width(below, depth + 1) and avro["type"] == "array":
                    raise MalformedTable("items of an avro array take no byte")
                return False
            case {"type": "record" | "error", "fields": list() as fields}:
                # Until it is known, one that holds itself takes what the rest of it takes.
                name = str(avro.get("name", "")).rpartition(".")[2]
                self._named[name] = True
                kinds = [self._field(field, depth + 1) for field in fields]
                self._named[name] = all(kinds)
                return self._named[name]
            case {"type": "fixed", "size": size}:
                name = str(avro.get("name", "")).rpartition(".")[2]
                self._named[name] = size == 0
                return bool(size == 0)
            case {"type": below}:
                return self.is_zero_width(below, depth + 1)
            case _:
                return False

    def _field(self, field: Any, depth: int) -> bool:
        return self.is_zero_width(field.get("type"), depth) if isinstance(field, Mapping) else False


def check_container(content: bytes) -> None:
    """Check that the codec is one that Hudi writes, and that the blocks are not too large when they
    are decompressed. Content that is not a container is left to its decoder. Raises MalformedTable.
    """
    if not content.startswith(_MAGIC):
        return
    stream = io.BytesIO(content)
    stream.seek(len(_MAGIC))
    entries = _map(stream)
    codec = entries.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        raise MalformedTable("avro container has an unread codec", codec=ascii(codec)[:40])
    _check_schema(entries.get("avro.schema", b"null"))
    stream.seek(_SYNC_BYTES, io.SEEK_CUR)
    records = room = 0
    while stream.tell() < len(content):
        records += _long(stream)
        size = _long(stream)
        if not 0 <= size <= len(content) - stream.tell() or records > 1:
            raise MalformedTable("avro container does not hold one record", records=records)
        block = stream.read(size)
        if codec == b"deflate":
            inflating = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                room += len(inflating.decompress(block, INFLATED_BYTES_MAX + 1 - room))
            except zlib.error as error:
                raise MalformedTable("avro container is damaged") from error
            if room > INFLATED_BYTES_MAX:
                raise MalformedTable("avro container holds too much", bytes_max=INFLATED_BYTES_MAX)
        stream.seek(_SYNC_BYTES, io.SEEK_CUR)


def _map(stream: io.BytesIO) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    while count := _long(stream):
        if count < 0:
            _long(stream)
        for _ in range(abs(count)):
            key, content = _bytes(stream), _bytes(stream)
            entries[key.decode("utf-8", "replace")] = content
    return entries


def _bytes(stream: io.BytesIO) -> bytes:
    size = _long(stream)
    content = stream.read(size) if size >= 0 else b""
    if len(content) != size:
        raise MalformedTable("avro container is cut off")
    return content


def _long(stream: io.BytesIO) -> int:
    """Read a zigzag number of at most ten bytes."""
    number = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise MalformedTable("avro container is cut off")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise MalformedTable("avro container has a number of too many bytes")
