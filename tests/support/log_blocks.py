"""Log blocks that other engines write and Sluice reads: deletes by columns, rollbacks."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.files.avro_encode import Encoded, encode_rows, join_parts, texts, to_bytes, varints
from workers.files.delete_record import DELETE_LIST, find_wrapper
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
    datum = _delete_list(keys, partition, orderings)
    content = struct.pack(">ii", CONTENT_VERSION, len(datum)) + datum
    return encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)


def encode_rollback_block(*, instant: InstantTime, target: InstantTime) -> bytes:
    header: Header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    return encode_block(BlockType.COMMAND, header, b"")


def _delete_list(
    keys: pa.Array[Any] | pa.ChunkedArray[Any],
    partition: str,
    orderings: pa.Array[Any] | pa.ChunkedArray[Any] | None,
) -> bytes:
    """`DELETE_LIST` of these keys, without an object per key."""
    text = join_parts(
        b"\x02", texts(_single(keys)), b"\x02", to_bytes(texts(pa.array([partition])))
    )
    ordered = join_parts(text, b"\x04\x00" if orderings is None else _wrapped(_single(orderings)))
    if len(keys) == 0:
        return b"\x00"
    return to_bytes(varints([len(keys)])) + to_bytes(ordered) + b"\x00"


def _wrapped(orderings: pa.Array[Any]) -> Encoded:
    """Each value in the wrapper of its type, with the wrapper's place in the union before it."""
    if orderings.null_count:
        raise InvalidInput(
            "a delete that is ordered by a value needs one", nulls=orderings.null_count
        )
    name = find_wrapper(orderings.type)
    values: Any = orderings
    if name == "DecimalWrapper":
        values = orderings.cast(pa.decimal128(30, 15))
    elif name == "TimestampMicrosWrapper":
        values = orderings.cast(pa.timestamp("us", "UTC"))
    ordering = json.loads(DELETE_LIST)["fields"][0]["type"]["items"]["fields"][2]
    wrappers = [wrapper if wrapper == "null" else wrapper["name"] for wrapper in ordering["type"]]
    branch = wrappers.index(name)
    field = ordering["type"][branch]["fields"][0]
    return join_parts(
        bytes([2 * branch]), encode_rows(pa.table({"value": values}), {"fields": [field]})
    )


def _single(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
