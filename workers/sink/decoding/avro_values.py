"""Decoder of Avro values with a prefix of a zero byte and a schema id of four bytes, the format of
schema registries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.sink.decoding.avro_columns import AvroColumns, Ints
from workers.sink.decoding.chunks import Chunk, Decoded, Undecodable, Value, decode_by_halving
from workers.sink.decoding.conversion import to_table
from workers.sink.decoding.new_fields import find_new_fields, mask_extra_values
from workers.sink.decoding.registry import SchemaRegistry

_PREFIX_BYTES = 5


class AvroValues:
    """Decoder of values by the schema of their writer, with a conversion to the table's schema."""

    def __init__(
        self, schema: pa.Schema, registry: SchemaRegistry, *, takes_plain: bool = False
    ) -> None:
        """Use a value that is not a record for the only column if `takes_plain` is set."""
        self._schema = schema
        self._struct = pa.struct(list(schema))
        self._registry = registry
        self._takes_plain = takes_plain and len(schema) == 1

    def decode(self, values: Sequence[Value]) -> Decoded:
        """Decode the values. A value is bad if its schema is not in the file or does not fit.

        Raises InvalidInput if a changed schema file is damaged or missing.
        """
        return decode_by_halving(values, self._chunk)

    def _chunk(self, values: Sequence[Value]) -> Chunk:
        content = b"".join(values)
        lengths = np.array([len(value) for value in values], np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        ids = _read_schema_ids(content, starts, lengths)
        parts, places, left_out = [], [], 0
        new: list[pa.Field[Any]] = []
        for schema_id in np.unique(ids).tolist():
            mine = np.flatnonzero(ids == schema_id)
            structs = self._structs(schema_id, content, starts[mine], ends[mine])
            columns = {
                field.name: structs.field(field.name)
                for field in self._schema
                if structs.type.get_field_index(field.name) >= 0
            }
            parts.append(to_table(columns, self._schema, len(mine), is_finite=False))
            places.append(mine)
            left_out += int(np.count_nonzero(mask_extra_values(structs, self._struct)))
            new += find_new_fields(structs.type, self._schema, is_inferred=False)
        rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        if len(parts) > 1:
            rows = rows.take(np.argsort(np.concatenate(places)))
        return Chunk(rows, tuple(new), left_out)

    def _structs(self, schema_id: int, content: bytes, starts: Ints, ends: Ints) -> Any:
        schema = self._registry.find_schema(schema_id)
        if schema is None:
            raise Undecodable(f"schema id {schema_id} is not in the schema file")
        try:
            structs = AvroColumns(content, starts + _PREFIX_BYTES, ends).read(schema)
        except InvalidInput as error:
            raise Undecodable(f"schema id {schema_id}: {error}") from error
        if not pa.types.is_struct(structs.type):
            if not self._takes_plain:
                raise Undecodable(f"schema id {schema_id} is not a record's")
            structs = pa.StructArray.from_arrays([structs], [self._schema.names[0]])
        for field in self._schema:
            at = structs.type.get_field_index(field.name)
            if at >= 0 and not _can_become(structs.type.field(at).type, field.type):
                raise Undecodable(
                    f"{field.name}: schema id {schema_id} has {structs.type.field(at).type}, "
                    f"the table {field.type}"
                )
        return structs


def _read_schema_ids(content: bytes, starts: Ints, lengths: Ints) -> Ints:
    if (lengths < _PREFIX_BYTES).any():
        raise Undecodable("too short for a schema id")
    prefixes = np.frombuffer(content, np.uint8)[starts[:, None] + np.arange(_PREFIX_BYTES)]
    if prefixes[:, 0].any():
        raise Undecodable("does not begin with a zero byte and a schema id")
    return np.ascontiguousarray(prefixes[:, 1:]).view(">u4").reshape(-1).astype(np.int64)


def _can_become(written: Any, column_type: Any) -> bool:
    """Check whether values of the written type can be converted to the column type."""
    types = pa.types
    if written == column_type or types.is_null(written):
        return True
    if types.is_integer(written):
        return bool(types.is_integer(column_type) or types.is_floating(column_type))
    if types.is_floating(written):
        return bool(types.is_float64(column_type))
    if types.is_timestamp(written):
        return bool(types.is_timestamp(column_type)) and (written.tz is None) == (
            column_type.tz is None
        )
    if types.is_decimal(written):
        return bool(types.is_decimal(column_type))
    if types.is_list(written) and types.is_list(column_type):
        return _can_become(written.value_type, column_type.value_type)
    if types.is_map(written) and types.is_map(column_type):
        return _can_become(written.item_type, column_type.item_type)
    if types.is_struct(written) and types.is_struct(column_type):
        types_by_name = {
            written.field(at).name: written.field(at).type for at in range(written.num_fields)
        }
        column_fields = (column_type.field(at) for at in range(column_type.num_fields))
        return all(
            field.name not in types_by_name or _can_become(types_by_name[field.name], field.type)
            for field in column_fields
        )
    return False
