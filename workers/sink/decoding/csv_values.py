"""Decoder of CSV values: each value is one line, with columns in a configured order.

The format is RFC 4180 with commas and doubled quotes, but without line breaks in quotes. So a quote
that is not closed can only join lines, and an equal number of rows and values means one row for
each value. An empty line at the end protects the last one. An empty field is null, and `""` is an
empty text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from workers.errors import InvalidInput
from workers.sink.decoding.chunks import Chunk, Decoded, Undecodable, Value, decode_by_halving
from workers.sink.decoding.conversion import format_cause, to_table
from workers.sink.decoding.new_fields import find_new_fields

_ZONE = r"([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_ROW = re.compile(r"Row #[0-9]+: ")
_DAY_CHARS = 10


class CsvValues:
    """Decoder of lines with these `columns`, or with the schema's if there are none."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str], *, infers: bool) -> None:
        """Raises InvalidInput for a column that a line cannot hold."""
        self._schema = schema
        self._columns = list(columns) or schema.names
        if len(set(self._columns)) < len(self._columns):
            raise InvalidInput("column is named twice", key="hoodie.sink.csv.columns")
        self._types = {
            name: _read_type(schema.field(name)) if name in schema.names else pa.string()
            for name in self._columns
        }
        more = [name for name in self._columns if name not in schema.names]
        self._more = more
        named = pa.struct([(name, pa.string()) for name in more])
        self._new = find_new_fields(named, schema) if infers else ()

    def decode(self, values: Sequence[Value]) -> Decoded:
        """Decode the values without their line ends. A value with other columns is bad."""
        return decode_by_halving([value.rstrip(b"\r\n") for value in values], self._chunk)

    def _chunk(self, values: Sequence[Value]) -> Chunk:
        if b"" in values and len(self._columns) > 1:
            raise Undecodable("an empty line")
        nothing = b"," * (len(self._columns) - 1)
        content = b"\n".join((*values, nothing, b""))
        if content.count(b"\n") != len(values) + 1 or b"\r" in content:
            raise Undecodable("a line break in a value")
        try:
            table = self._parse(content)
        except pa.ArrowException as error:
            raise Undecodable(_format_cause(error)) from error
        if table.num_rows != len(values) + 1:
            raise Undecodable("a quote that is not closed")
        table = table.slice(0, len(values)).combine_chunks()
        columns = {name: _get_column(table, name) for name in self._columns}
        try:
            for field in self._schema:
                if pa.types.is_timestamp(field.type) and field.name in columns:
                    columns[field.name] = _parse_times(columns[field.name], field.type)
        except pa.ArrowException as error:
            raise Undecodable(format_cause(error)) from error
        left_out = np.zeros(len(values), np.bool_)
        for name in self._more:
            left_out |= columns[name].is_valid().to_numpy(zero_copy_only=False)
        rows = to_table(columns, self._schema, len(values), is_finite=True)
        return Chunk(rows, self._new, int(np.count_nonzero(left_out)))

    def _parse(self, content: bytes) -> Any:
        return pcsv.read_csv(
            pa.BufferReader(content),  # type: ignore[arg-type]
            pcsv.ReadOptions(
                use_threads=False, block_size=len(content) + 1, column_names=self._columns
            ),
            pcsv.ParseOptions(ignore_empty_lines=False),
            pcsv.ConvertOptions(
                column_types=self._types,
                null_values=[""],
                true_values=["true", "TRUE", "True", "1"],
                false_values=["false", "FALSE", "False", "0"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _read_type(field: Any) -> pa.DataType:
    if pa.types.is_nested(field.type):
        raise InvalidInput("a CSV line cannot hold this column", column=field.name, type=field.type)
    if pa.types.is_timestamp(field.type):
        return pa.string()  # With and without a zone.
    assert isinstance(field.type, pa.DataType)
    return field.type


def _get_column(table: pa.Table, name: str) -> Any:
    chunks = table.column(name).chunks
    return chunks[0] if chunks else pa.array([], table.schema.field(name).type)


def _parse_times(texts: Any, target: Any) -> Any:
    """Parse the times. A text without a zone is UTC."""
    compute: Any = pc
    is_day = compute.equal(compute.utf8_length(texts), _DAY_CHARS)
    with_time = compute.if_else(
        is_day, compute.binary_join_element_wise(texts, "00:00:00", "T"), texts
    )
    has_zone = compute.match_substring_regex(with_time, _ZONE)
    zoned = compute.if_else(
        has_zone, with_time, compute.binary_join_element_wise(with_time, "Z", "")
    )
    return zoned.cast(pa.timestamp(target.unit, "UTC")).cast(target)


def _format_cause(error: Exception) -> str:
    """Format the cause without line numbers, which are those of the batch."""
    return _ROW.sub("", format_cause(error).removeprefix("CSV parse error: "))
