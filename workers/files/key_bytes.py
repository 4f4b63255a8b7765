"""The bytes of record keys in Arrow's buffers, without an object per key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.errors import InvalidInput


def text_chunks(keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> list[Any]:
    """Return the chunks that hold keys, each in one of Arrow's plain types of text.

    Raises InvalidInput for keys that are not text, or null.
    """
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [_as_text(chunk) for chunk in chunks if len(chunk)]


def bytes_and_offsets(chunk: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the UTF-8 bytes of exactly this chunk, and where each key starts in them."""
    width: type[np.generic] = np.int64 if chunk.type == pa.large_string() else np.int32
    _, offset_buffer, data_buffer = chunk.buffers()
    offsets = np.frombuffer(offset_buffer, width)[chunk.offset : chunk.offset + len(chunk) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if data_buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(chunk) + 1, np.int64)
    content = np.frombuffer(data_buffer, np.uint8, count=last - first, offset=first)
    return content, offsets.astype(np.int64) - first


def _as_text(chunk: Any) -> Any:
    if not _is_text(chunk.type):
        raise InvalidInput("record keys are not text", type=chunk.type)
    is_plain = chunk.type in (pa.string(), pa.large_string())
    text = chunk if is_plain else chunk.cast(pa.string())
    if text.null_count:
        raise InvalidInput("record key is null", row=text.is_null().index(True).as_py())
    return text


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string_view(kind)
        or (types.is_dictionary(kind) and _is_text(kind.value_type))
        or kind in (pa.string(), pa.large_string())
    )
