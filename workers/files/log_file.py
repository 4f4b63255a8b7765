"""Log files: blocks one after the other, read past a torn tail or a corrupt stretch.

A block counts when its two lengths agree; anything else is skipped up to the next magic, as Hudi
does. What a whole block says must make sense, though: one that does not is MalformedTable, never a
silent loss.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from workers.errors import MalformedTable, UnsupportedTable
from workers.files.log_block import MAGIC, LogBlock, decode_archive_body, decode_body
from workers.storage.base import Storage

_LENGTH = struct.Struct(">q")
_HEAD = len(MAGIC) + _LENGTH.size


def write_log_file(storage: Storage, path: str, blocks: Iterable[bytes]) -> int:
    """Write a new log file of encoded blocks; the size in bytes.

    Raises InvalidInput when the path exists.
    """
    size = 0
    with storage.create_data(path) as stream:
        for block in blocks:
            stream.write(block)
            size += len(block)
    return size


def read_log_file(storage: Storage, path: str) -> list[LogBlock]:
    """The blocks in file order. Raises NotFound, MalformedTable, UnsupportedTable."""
    content = storage.read(path)
    blocks = []
    for offset, body in _framed(content):
        try:
            block = decode_body(body)
        except (MalformedTable, UnsupportedTable) as error:
            raise type(error)(error.message, **error.values, path=path, offset=offset) from error
        if block is not None:
            blocks.append(block)
    return blocks


def read_archive_records(storage: Storage, path: str) -> Iterator[dict[str, Any]]:
    """The records of a log file that holds archived instants, in file order.

    Raises NotFound, MalformedTable.
    """
    for offset, body in _framed(storage.read(path)):
        try:
            yield from decode_archive_body(body)
        except MalformedTable as error:
            raise MalformedTable(error.message, path=path, offset=offset) from error


def _framed(content: bytes) -> Iterator[tuple[int, memoryview]]:
    view = memoryview(content)
    at = content.find(MAGIC)
    while at >= 0:
        size = _whole_block_size(view, at)
        if size is None:
            at = content.find(MAGIC, at + 1)
            continue
        body_end = at + _HEAD + size - _LENGTH.size
        yield at, view[at + _HEAD : body_end]
        at = content.find(MAGIC, at + _HEAD + size)


def _whole_block_size(view: memoryview, at: int) -> int | None:
    """The size in the head, when the length at the end confirms it."""
    if at + _HEAD > len(view):
        return None
    (size,) = _LENGTH.unpack_from(view, at + len(MAGIC))
    end = at + _HEAD + size
    if size < _LENGTH.size or end > len(view):
        return None
    (back,) = _LENGTH.unpack_from(view, end - _LENGTH.size)
    return size if back == size + len(MAGIC) else None
