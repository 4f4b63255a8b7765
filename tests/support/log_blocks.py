"""Log blocks that other engines write and Sluice reads: deletes by columns, rollbacks."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.files.delete_record import encode_delete_list
from workers.files.log_block import CONTENT_VERSION, BlockType, Header, HeaderKey, encode_block


def encode_delete_columns(
    keys: pa.Array[Any] | pa.ChunkedArray[Any],
    *,
    partition: str,
    instant: InstantTime,
    orderings: pa.Array[Any] | pa.ChunkedArray[Any] | None = None,
) -> bytes:
    """A delete block of `keys`. Without `orderings` they are deleted whatever stands there, else as
    versions with these values.

    Raises InvalidInput for an ordering value that is null, UnsupportedTable for its type.
    """
    datum = encode_delete_list(keys, partition, orderings)
    content = struct.pack(">ii", CONTENT_VERSION, len(datum)) + datum
    return encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)


def encode_rollback_block(*, instant: InstantTime, target: InstantTime) -> bytes:
    header: Header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    return encode_block(BlockType.COMMAND, header, b"")
