"""Decoder of JSON values: Arrow parses a whole batch at once, and each value must give one row.

Each value is wrapped in an object, `{"v":` value `}`, on a line of its own. A text cannot continue
past the end of a line. After the brace at the end of a line, only the top level can begin another
object. So every line begins a row, and an equal number of rows and values means one row for each
value. More than one value on a line shows as a second field next to `v`.

A value must be JSON by RFC 8259, in UTF-8, an object at the top, with at most `DEPTH_MAX` levels.
Values are not converted between text and numbers, except for dates, times, decimals and bytes,
which JSON does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from workers.sink.decoding.chunks import Chunk, Decoded, Undecodable, Value, decode_by_halving
from workers.sink.decoding.conversion import format_cause, to_table
from workers.sink.decoding.json_shape import (
    DEPTH_MAX,
    Path,
    find_numbers,
    has_map,
    list_temporal_paths,
    maps_to_pairs,
    measure_depth,
    read_type,
)
from workers.sink.decoding.new_fields import find_new_fields, infer_struct, mask_extra_values

Unexpected: TypeAlias = Literal["error", "ignore", "infer"]

_OPEN, _BETWEEN, _CLOSE = b'{"v":', b'}\n{"v":', b"}"
_ROW = re.compile(r" in row [0-9]+$")


class JsonValues:
    """Decoder of JSON values. Between batches it keeps the topic's kind of times, and whether
    records have extra fields.
    """

    def __init__(self, schema: pa.Schema, *, infers: bool) -> None:
        self._schema = schema
        self._struct = pa.struct(list(schema))
        self._infers = infers
        self._temporal = list(list_temporal_paths(self._struct))
        self._has_map = has_map(self._struct)
        self._number_at: dict[Path, bool] = {}
        self._brings_more = False

    def decode(self, values: Sequence[Value]) -> Decoded:
        """Decode the values. A value is bad if it is not a JSON object or a field does not fit."""
        if self._has_map:
            values = [self._maps_to_pairs(value) for value in values]
        return decode_by_halving(values, self._chunk)

    def _chunk(self, values: Sequence[Value]) -> Chunk:
        joined = _join(values)
        try:
            return self._read(joined, values)
        except Undecodable:
            number_at = find_numbers(values[0], self._temporal, self._number_at)
            if number_at == self._number_at:
                raise
            self._number_at = number_at
        return self._read(joined, values)

    def _read(self, joined: bytes, values: Sequence[Value]) -> Chunk:
        try:
            if not self._brings_more:
                return self._build_chunk(self._parse(joined, len(values), "error"))
        except pa.ArrowException:
            pass  # It may be bad, or have extra fields.
        _check_depth(values)
        try:
            structs = self._parse(joined, len(values), "infer")
        except pa.ArrowException:
            return self._read_ignoring(joined, values)
        more = mask_extra_values(structs, self._struct)
        self._brings_more = bool(more.any())
        chunk = self._build_chunk(structs)
        chunk.left_out = int(np.count_nonzero(more))
        if self._infers:
            chunk.new_fields = find_new_fields(structs.type, self._schema)
        return chunk

    def _read_ignoring(self, joined: bytes, values: Sequence[Value]) -> Chunk:
        """Read the values without extra fields, whose types may differ between records."""
        try:
            chunk = self._build_chunk(self._parse(joined, len(values), "ignore"))
            more = [self._find_extra_fields(value) for value in values]
        except (pa.ArrowException, ValueError) as error:
            raise Undecodable(_format_cause(error)) from error
        chunk.left_out = sum(any(v is not None for v in fields.values()) for fields in more)
        if self._infers:
            chunk.new_fields = find_new_fields(infer_struct(more), self._schema)
        return chunk

    def _find_extra_fields(self, value: Value) -> dict[str, Any]:
        """Return the fields of one record that are in no column. Raises as `_parse` and json do."""
        try:
            record = json.loads(value)
        except ValueError:
            # Arrow parses some numbers that Python does not, such as Inf.
            record = self._parse(_join([value]), 1, "infer").to_pylist()[0]
        return {name: record[name] for name in record.keys() - set(self._schema.names)}

    def _parse(self, joined: bytes, rows: int, unexpected: Unexpected) -> Any:
        """Parse the lines and return the structs in `v`. Raises ArrowInvalid."""
        schema = pa.schema([("v", read_type(self._struct, self._number_at, ()))])
        table = pj.read_json(
            pa.BufferReader(joined),  # type: ignore[arg-type]
            pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            pj.ParseOptions(
                explicit_schema=schema,
                newlines_in_values=True,
                unexpected_field_behavior=unexpected,
            ),
        )
        if table.num_rows != rows or table.num_columns != 1:
            raise pa.ArrowInvalid("not one JSON value")
        structs = table.column(0).combine_chunks()
        if structs.null_count:
            raise pa.ArrowInvalid("null is not a JSON object")
        return structs

    def _build_chunk(self, structs: Any) -> Chunk:
        columns = {field.name: structs.field(field.name) for field in self._schema}
        return Chunk(to_table(columns, self._schema, len(structs), is_finite=True))

    def _maps_to_pairs(self, value: Value) -> Value:
        if measure_depth(value) > DEPTH_MAX:
            return value
        try:
            return maps_to_pairs(value, self._struct)
        except ValueError:
            return value  # The parser reports the error.


def _format_cause(error: Exception) -> str:
    """Format the cause without `v`."""
    text = format_cause(error).removeprefix("JSON parse error: ").replace("(/v/", "(")
    return _ROW.sub("", text)


def _join(values: Sequence[Value]) -> bytes:
    """Join the values to lines. Raises Undecodable for text that is not UTF-8."""
    parts = list(values)
    parts[0] = _OPEN + parts[0]
    parts[-1] += _CLOSE
    joined = _BETWEEN.join(parts)  # One copy of what may be many megabytes.
    if not joined.isascii():
        try:
            joined.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Undecodable("not UTF-8") from error
    return joined


def _check_depth(values: Sequence[Value]) -> None:
    """Check the depth, before fields without a column are parsed. Raises Undecodable."""
    # Most values are too short, or have too few brackets, to need the check.
    dense = [
        value
        for value in values
        if len(value) > DEPTH_MAX and value.count(b"{") + value.count(b"[") > DEPTH_MAX
    ]
    if any(measure_depth(value) > DEPTH_MAX for value in dense):
        raise Undecodable(f"nested deeper than {DEPTH_MAX} levels")
