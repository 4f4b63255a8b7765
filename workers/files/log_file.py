"""Log files: blocks in sequence, read past a torn tail or a corrupt stretch.

A block counts when its two lengths agree; anything else is skipped up to the next magic, as in
Hudi, and counted in `LogFile.skipped_bytes`. A whole block must be valid, though: an invalid one is
MalformedTable, never a silent loss.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from workers.errors import MalformedTable, UnsupportedTable
from workers.files.log_block import (
    MAGIC,
    LogBlock,
    MetadataBlock,
    decode_archive_body,
    decode_body,
    decode_metadata_body,
)
from workers.storage.base import Storage

_Block = TypeVar("_Block")
_LENGTH = struct.Struct(">q")
_HEAD = len(MAGIC) + _LENGTH.size


@dataclass(frozen=True, slots=True)
class LogFile(Generic[_Block]):
    """A log file as it was read."""

    blocks: list[_Block]
    """In file order."""
    skipped_bytes: int
    """Of no whole block: an end that was torn off, or a stretch that was damaged since."""


def write_log_file(storage: Storage, path: str, blocks: Iterable[bytes]) -> int:
    """Write a new log file of encoded blocks, and return its size in bytes.

    Raises InvalidInput when the path exists.
    """
    size = 0
    with storage.create_data(path) as stream:
        for block in blocks:
            stream.write(block)
            size += len(block)
    return size


def read_log_file(storage: Storage, path: str) -> list[LogBlock]:
    """Return the blocks in file order. Raises NotFound, MalformedTable, UnsupportedTable."""
    return open_log_file(storage, path).blocks


def open_log_file(storage: Storage, path: str) -> LogFile[LogBlock]:
    """Read a log file, and count the skipped bytes. Raises as `read_log_file`."""
    return _decode_file(storage, path, decode_body)


def read_metadata_log(storage: Storage, path: str) -> list[MetadataBlock]:
    """Return the blocks of a log file of the metadata table. Raises as `read_log_file`."""
    log: LogFile[MetadataBlock] = _decode_file(storage, path, decode_metadata_body)
    return log.blocks


def _decode_file(
    storage: Storage, path: str, decode: Callable[[memoryview], _Block | None]
) -> LogFile[_Block]:
    content = storage.read(path)
    blocks: list[_Block] = []
    skipped_bytes = len(content)
    for offset, body in _split_frames(content):
        try:
            block = decode(body)
        except (MalformedTable, UnsupportedTable) as error:
            raise type(error)(error.message, **error.values, path=path, offset=offset) from error
        if block is not None:
            blocks.append(block)
        skipped_bytes -= _HEAD + len(body) + _LENGTH.size
    return LogFile(blocks, skipped_bytes)


def read_archive_records(storage: Storage, path: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a log file that holds archived instants, in file order.

    Raises NotFound, MalformedTable.
    """
    for offset, body in _split_frames(storage.read(path)):
        try:
            yield from decode_archive_body(body)
        except MalformedTable as error:
            raise MalformedTable(error.message, path=path, offset=offset) from error


def _split_frames(content: bytes) -> Iterator[tuple[int, memoryview]]:
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
    """Return the size in the head if the length at the end confirms it, otherwise None."""
    if at + _HEAD > len(view):
        return None
    (size,) = _LENGTH.unpack_from(view, at + len(MAGIC))
    end = at + _HEAD + size
    if size < _LENGTH.size or end > len(view):
        return None
    (back,) = _LENGTH.unpack_from(view, end - _LENGTH.size)
    return size if back == size + len(MAGIC) else None
