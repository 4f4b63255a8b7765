"""Arrow columns as Avro datums, column by column: no Python object per record.

Every value becomes the bytes of its encoding; the bytes of a row are those of its columns, joined.
An array of bytes shares the buffer of its elements, so a list's items need no copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput, UnsupportedTable

Encoded: TypeAlias = "pa.Array[Any]"
"""Binary, never null: one encoding per value."""

_FLOATS = {"float": "<f4", "double": "<f8"}
_DECIMAL_BYTES = 16
_PRIMITIVES = frozenset(("boolean", "int", "long", "float", "double", "string", "bytes"))
_KINDS = _PRIMITIVES | {"fixed", "enum", "array", "map", "record"}


def encode_rows(table: pa.Table, avro: Mapping[str, Any]) -> Encoded:
    """Encode each row as a datum of the record schema `avro`, whose fields are the table's columns.

    Raises InvalidInput for a null where the schema requires a value, UnsupportedTable.
    """
    names = [field["name"] for field in avro["fields"]]
    assert names == table.column_names, (names, table.column_names)
    columns = [_whole(table.column(name)) for name in names]
    return _Encoder().record(columns, avro, table.num_rows)


def varints(values: Any) -> Encoded:
    """Encode Avro's int and long: zigzag, seven bits a byte, lowest bits first."""
    numbers = np.asarray(values, dtype=np.int64)
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    groups = np.stack([(zigzag >> np.uint64(7 * at)) & np.uint64(0x7F) for at in range(width)], 1)
    lengths = np.where(zigzag == 0, 1, width - np.argmax(groups[:, ::-1] != 0, axis=1))
    place = np.arange(width)
    has_more = place < lengths[:, None] - 1
    encoded = groups.astype(np.uint8) | (has_more * np.uint8(0x80))
    return binary(lengths, encoded[place < lengths[:, None]])


def texts(array: pa.Array[Any]) -> Encoded:
    """Encode Avro's string and bytes: the length, then the bytes."""
    plain: Any = array.cast(pa.binary())
    content: Any = pc.fill_null(plain, b"")
    return join_parts(varints(get_lengths(content)), content)


def join_parts(*parts: Encoded | bytes) -> Encoded:
    """Join the parts element by element; a bytes part is repeated in every element."""
    scalars: list[Any] = [pa.scalar(part) if isinstance(part, bytes) else part for part in parts]
    encoded: Any = pc.binary_join_element_wise(*scalars, pa.scalar(b""))
    return encoded  # type: ignore[no-any-return]


def get_lengths(encoded: Encoded) -> Any:
    """Return the size of each element in bytes, as a numpy array."""
    return np.diff(_offsets(encoded))


def to_bytes(encoded: Encoded) -> bytes:
    """Return all elements as contiguous bytes."""
    offsets = _offsets(encoded)
    data = encoded.buffers()[2]
    return data.to_pybytes()[offsets[0] : offsets[-1]] if data is not None else b""


def binary(lengths: Any, data: Any) -> Encoded:
    """Build elements of these lengths, cut from `data`."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return _cut(offsets, np.ascontiguousarray(data, dtype=np.uint8))


class _Encoder:
    """An encoder that remembers named types, which Avro defines once and then refers to by name."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}

    def record(self, columns: list[Any], avro: Mapping[str, Any], rows: int) -> Encoded:
        parts = [
            self.place(column, field["type"], field["name"])
            for column, field in zip(columns, avro["fields"], strict=True)
        ]
        return join_parts(*parts) if parts else binary(np.zeros(rows), b"")

    def place(self, array: Any, avro: Any, name: str) -> Encoded:
        if not isinstance(avro, list):
            if array.null_count:
                raise InvalidInput("required column holds null", column=name)
            return self.value(array, avro, name)
        others = [member for member in avro if member != "null"]
        if len(others) != 1:
            raise UnsupportedTable("column is a union of several types", column=name)
        branch = bytes([2 * avro.index(others[0])])
        present = join_parts(branch, self.value(array, others[0], name))
        if not array.null_count:
            return present
        absent: Any = pa.scalar(bytes([2 * avro.index("null")]))
        encoded: Any = pc.if_else(array.is_valid(), present, absent)
        return encoded  # type: ignore[no-any-return]

    def value(self, array: Any, avro: Any, name: str) -> Encoded:
        """Encode values; null elements get some encoding, which is never read."""
        kind, avro = self._resolve(avro)
        match kind:
            case "boolean":
                bits = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
                return binary(np.ones(len(array)), bits.astype(np.uint8))
            case "int" | "long":
                return varints(_whole_numbers(array))
            case "float" | "double":
                numbers = (
                    pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(_FLOATS[kind])
                )
                return binary(np.full(len(numbers), numbers.itemsize), numbers.view(np.uint8))
            case "string" | "bytes":
                return texts(_decimals(array, None) if pa.types.is_decimal(array.type) else array)
            case "fixed":
                return _encode_fixed(array, int(avro["size"]))
            case "enum":
                symbols: Any = pa.array(avro["symbols"], pa.string())
                return varints(pc.fill_null(pc.index_in(array, symbols), 0).to_numpy())
            case "array":
                items = self.place(array.values, avro["items"], name)
                return _blocks(array.offsets.to_numpy(), items)
            case "map":
                values = self.place(array.items, avro["values"], name)
                return _blocks(array.offsets.to_numpy(), join_parts(texts(array.keys), values))
            case _:
                return self.record(_present_fields(array), avro, len(array))

    def _resolve(self, avro: Any) -> tuple[str, Any]:
        """Return the kind, and the schema with its details; a name refers to an earlier
        definition.
        """
        if isinstance(avro, str):
            return (avro, {}) if avro in _PRIMITIVES else self._resolve(self._named[avro])
        kind = avro["type"]
        if not isinstance(kind, str):
            return self._resolve(kind)
        if "name" in avro:
            self._named[str(avro["name"])] = self._named[_full_name(avro)] = avro
        return (kind, avro) if kind in _KINDS else self._resolve(kind)


def _full_name(avro: Mapping[str, Any]) -> str:
    return f"{avro['namespace']}.{avro['name']}" if avro.get("namespace") else str(avro["name"])


def _present_fields(array: Any) -> list[Any]:
    """Return the children; below a null struct they are not null themselves where they must
    not be.
    """
    return [array.field(at) for at in range(array.type.num_fields)]


def _whole_numbers(array: Any) -> Any:
    types = pa.types
    if types.is_temporal(array.type):
        narrow = types.is_date32(array.type) or types.is_time32(array.type)
        array = array.view(pa.int32() if narrow else pa.int64())
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False)


def _encode_fixed(array: Any, size: int) -> Encoded:
    if pa.types.is_decimal(array.type):
        return _decimals(array, size)
    encoded: Any = pc.fill_null(array.cast(pa.binary()), b"")
    return encoded  # type: ignore[no-any-return]


def _decimals(array: Any, size: int | None) -> Encoded:
    """Encode as two's complement, greatest byte first, in `size` bytes."""
    size = size or _DECIMAL_BYTES
    if size > _DECIMAL_BYTES:
        raise UnsupportedTable("decimal is stored in more bytes than it needs", bytes=size)
    little = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
    little = little[array.offset : array.offset + len(array)]
    return binary(np.full(len(array), size), little[:, :size][:, ::-1].reshape(-1))


def _blocks(offsets: Any, items: Encoded) -> Encoded:
    """Encode lists: their counts, the items, and a zero that ends them."""
    counts = np.diff(offsets)
    starts = _offsets(items)[offsets]
    data: Any = items.buffers()[2] or b""
    content = _cut(starts, np.frombuffer(data, np.uint8))
    heads: Any = pc.if_else(pa.array(counts > 0), varints(counts), pa.scalar(b""))
    return join_parts(heads, content, b"\x00")


def _offsets(encoded: Encoded) -> Any:
    buffer: Any = encoded.buffers()[1]
    if buffer is None or len(encoded) == 0:
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(buffer, np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]


def _cut(offsets: Any, data: Any) -> Encoded:
    assert offsets[-1] < 2**31, "more bytes than one Arrow array holds"
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _whole(column: pa.ChunkedArray[Any]) -> Any:
    """Return a single array from the start of its buffers, so that offsets of nested values are its
    own.
    """
    array: Any = column.combine_chunks()
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array
