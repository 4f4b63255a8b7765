"""Decoder of Avro's binary encoding, one field at a time over many records.

Every record has a position, and reading a field advances all positions. So a field costs a few
array operations for any number of records, and no record becomes a Python object. Only arrays and
maps need one pass for each of their items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.errors import InvalidInput
from workers.sink.decoding.chunks import Undecodable

Ints = npt.NDArray[np.int64]
_PADDING = 16
_DEPTH_MAX = 64
_DECIMAL_BYTES_MAX = 16
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


class AvroColumns:
    """Encoded records, with the current position of each."""

    def __init__(self, content: bytes, starts: Ints, ends: Ints) -> None:
        self._bytes = np.frombuffer(content + bytes(_PADDING), np.uint8)
        self._at = starts.copy()
        self._ends = ends

    def read(self, schema: Any) -> Any:
        """Return all records as structs. Raises Undecodable if a record has fewer or more bytes.

        Raises InvalidInput for an invalid Avro schema.
        """
        structs = self._value(schema, np.arange(len(self._at)), {}, 0)
        if (self._at != self._ends).any():
            raise Undecodable("bytes are left after the record")
        return structs

    def _value(self, avro: Any, rows: Ints, names: dict[str, Any], level: int) -> Any:
        """Return the value of this type in each of these records; null if it has no Arrow type."""
        if level > _DEPTH_MAX:
            raise InvalidInput("Avro schema is nested too deep, or within itself")
        if isinstance(avro, list):
            return self._union(avro, rows, names, level + 1)
        kind, avro = _resolve(avro, names)
        logical = str(avro.get("logicalType", ""))
        match kind:
            case "null":
                return pa.nulls(len(rows))
            case "record" | "error":
                return self._record(avro, rows, names, level + 1)
            case "array" | "map":
                return self._items(kind, avro, rows, names, level + 1)
            case "bytes" | "fixed" if logical == "decimal":
                return self._decimals(kind, avro, rows)
            case "fixed":
                lengths = np.full(len(rows), int(avro["size"]), np.int64)
                return self._binary(self._advance(rows, lengths), lengths, pa.binary())
            case "enum":
                return self._symbols(avro["symbols"], rows)
            case "bytes" | "string":
                lengths = self._longs(rows)
                of_type = pa.binary() if kind == "bytes" else pa.string()
                return self._binary(self._advance(rows, lengths), lengths, of_type)
            case _:
                return self._number(kind, logical, rows)

    def _number(self, kind: str, logical: str, rows: Ints) -> Any:
        if kind in ("int", "long"):
            values = self._longs(rows)
            if kind == "int":
                if ((values < -(2**31)) | (values >= 2**31)).any():
                    raise Undecodable("an int of more than 32 bits")
                values = values.astype(np.int32)
            numbers = pa.array(values)
            return numbers.view(_LOGICAL[kind, logical]) if (kind, logical) in _LOGICAL else numbers
        if kind not in _FIXED:
            raise InvalidInput("not an Avro type", type=kind)
        dtype = np.dtype(_FIXED[kind])
        starts = self._advance(rows, np.full(len(rows), dtype.itemsize, np.int64))
        raw = self._bytes[starts[:, None] + np.arange(dtype.itemsize)]
        if kind != "boolean":
            return pa.array(raw.reshape(-1).view(dtype))
        if (raw > 1).any():
            raise Undecodable("a boolean that is neither 0 nor 1")
        return pa.array(raw.reshape(-1).astype(np.bool_))

    def _record(self, avro: Any, rows: Ints, names: dict[str, Any], level: int) -> Any:
        fields = avro["fields"]
        columns = [self._value(field["type"], rows, names, level) for field in fields]
        if not columns:
            return pa.array([{}] * len(rows), pa.struct([]))
        return pa.StructArray.from_arrays(columns, [field["name"] for field in fields])

    def _union(self, branches: list[Any], rows: Ints, names: dict[str, Any], level: int) -> Any:
        chosen = self._longs(rows)
        if ((chosen < 0) | (chosen >= len(branches))).any():
            raise Undecodable("a branch that its union does not have")
        column = pa.nulls(len(rows))
        for number, branch in enumerate(branches):
            places = np.flatnonzero(chosen == number)
            inner = self._value(branch, rows[places], names, level)
            if branch != "null" and len(branches) == 1 + ("null" in branches):
                column = _spread(inner, places, len(rows))
        return column

    def _items(self, kind: str, avro: Any, rows: Ints, names: dict[str, Any], level: int) -> Any:
        """Read blocks of items: the first item of all records, then the second, and so on."""
        counts = np.zeros(len(rows), np.int64)
        owners: list[Ints] = []
        keys: list[Any] = []
        items: list[Any] = []
        open_ = np.arange(len(rows))
        while len(open_):
            left = self._block_counts(rows[open_])
            open_, left = open_[left > 0], left[left > 0]
            counts[open_] += left
            for turn in range(int(left.max()) if len(left) else 0):
                mine = open_[left > turn]
                owners.append(mine)
                if kind == "map":
                    keys.append(self._value("string", rows[mine], names, level))
                items.append(self._value(_get_inner_type(kind, avro), rows[mine], names, level))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        if not items:
            none = np.arange(0)
            owners, items = [none], [self._value(_get_inner_type(kind, avro), none, names, level)]
            keys = [pa.array([], pa.string())]
        order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
        values = pa.concat_arrays(items).take(order)
        if kind == "map":
            maps: Any = pa.MapArray
            return maps.from_arrays(offsets, pa.concat_arrays(keys).take(order), values)
        of_type = pa.list_(pa.field("element", values.type))
        lists: Any = pa.ListArray
        return lists.from_arrays(offsets, values, of_type)

    def _block_counts(self, rows: Ints) -> Ints:
        counts = self._longs(rows)
        if len(sized := np.flatnonzero(counts < 0)):
            counts[sized] = -counts[sized]
            self._longs(rows[sized])  # The block's size in bytes, for readers that skip it.
        # Every useful item has at least one byte, so a higher count is invalid.
        if ((counts < 0) | (counts > self._ends[rows] - self._at[rows])).any():
            raise Undecodable("more items than bytes")
        return counts

    def _decimals(self, kind: str, avro: Any, rows: Ints) -> Any:
        if kind == "bytes":
            lengths = self._longs(rows)
        else:
            lengths = np.full(len(rows), int(avro["size"]), np.int64)
        starts = self._advance(rows, lengths)
        if ((lengths < 1) | (lengths > _DECIMAL_BYTES_MAX)).any():
            raise Undecodable("a decimal without bytes, or of more than 16")
        signs = np.where(self._bytes[starts] >= 0x80, 0xFF, 0).astype(np.uint8)
        little = np.empty((len(rows), _DECIMAL_BYTES_MAX), np.uint8)
        for place in range(_DECIMAL_BYTES_MAX):
            from_ = np.maximum(starts + lengths - 1 - place, starts)
            little[:, place] = np.where(place < lengths, self._bytes[from_], signs)
        of_type = pa.decimal128(int(avro["precision"]), int(avro.get("scale", 0)))
        buffers = [None, pa.py_buffer(little.tobytes())]
        return _validate(pa.Array.from_buffers(of_type, len(rows), buffers))

    def _symbols(self, symbols: list[str], rows: Ints) -> Any:
        chosen = self._longs(rows)
        if ((chosen < 0) | (chosen >= len(symbols))).any():
            raise Undecodable("a symbol that its enum does not have")
        return pa.array(symbols, pa.string()).take(chosen)

    def _binary(self, starts: Ints, lengths: Ints, of_type: pa.DataType) -> Any:
        ends = np.cumsum(lengths)
        offsets = np.concatenate([[0], ends])
        if offsets[-1] >= 2**31:
            raise Undecodable("too many bytes in one column of a batch")
        gathered = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        content = self._bytes[gathered].tobytes()
        buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(content)]
        column = pa.Array.from_buffers(of_type, len(lengths), buffers)
        return column if content.isascii() or of_type != pa.string() else _validate(column)

    def _advance(self, rows: Ints, lengths: Ints) -> Ints:
        """Advance these records by `lengths` bytes, and return their positions before."""
        starts = self._at[rows]
        if ((lengths < 0) | (lengths > self._ends[rows] - starts)).any():
            raise Undecodable("the record ends within a value")
        self._at[rows] = starts + lengths
        return starts

    def _longs(self, rows: Ints) -> Ints:
        """Read one zigzag number of each record."""
        at = self._at[rows]
        first = self._bytes[at]
        values = (first & 0x7F).astype(np.uint64)
        at += 1
        more = np.flatnonzero(first & 0x80)
        shift = 7
        while len(more):
            if shift > 63 or (at[more] >= self._ends[rows[more]]).any():
                raise Undecodable("a number without an end")
            following = self._bytes[at[more]]
            values[more] |= (following & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more = more[(following & 0x80) != 0]
            shift += 7
        if (at > self._ends[rows]).any():
            raise Undecodable("the record ends within a value")
        self._at[rows] = at
        halves = (values >> np.uint64(1)).view(np.int64)
        return halves ^ -(values & np.uint64(1)).view(np.int64)


_FIXED: Mapping[str, str] = {"boolean": "u1", "float": "<f4", "double": "<f8"}


def _resolve(avro: Any, names: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the kind and the definition of a type, also for a reference by name."""
    if isinstance(avro, str):
        if avro in names:
            avro = names[avro]
        else:
            return avro, {}
    kind = avro["type"]
    if not isinstance(kind, str):
        return _resolve(kind, names)
    if "name" in avro:
        names[avro["name"]] = avro
        if "namespace" in avro:
            names[f"{avro['namespace']}.{avro['name']}"] = avro
    elif kind in names:
        return _resolve(kind, names)
    return kind, avro


def _get_inner_type(kind: str, avro: Any) -> Any:
    return avro["items" if kind == "array" else "values"]


def _spread(inner: Any, places: Ints, rows: int) -> Any:
    """Return `rows` rows with these values at these places, null elsewhere."""
    if len(places) == rows:
        return inner
    at = np.zeros(rows, np.int64)
    at[places] = np.arange(len(places))
    is_null = np.ones(rows, np.bool_)
    is_null[places] = False
    return inner.take(pa.array(at, mask=is_null))


def _validate(array: Any) -> Any:
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        raise Undecodable(str(error)) from error
    return array
