"""Avro values that begin with a zero byte and a schema id of four bytes, as registries' clients
write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.sink.decoding.avro_columns import AvroColumns, Ints
from workers.sink.decoding.chunks import Chunk, Decoded, Undecodable, Value, decoded_by_halving
from workers.sink.decoding.conversion import table_of
from workers.sink.decoding.new_fields import brought, new_fields_of
from workers.sink.decoding.registry import SchemaRegistry

_PREFIX_BYTES = 5


class AvroValues:
    """Each record is read by the schema that it was written with, then put under the table's."""

    def __init__(
        self, schema: pa.Schema, registry: SchemaRegistry, *, takes_plain: bool = False
    ) -> None:
        """With `takes_plain` a value that is no record is that of the only column."""
        self._schema = schema
        self._struct = pa.struct(list(schema))
        self._registry = registry
        self._takes_plain = takes_plain and len(schema) == 1

    def decode(self, values: Sequence[Value]) -> Decoded:
        """A value of a schema that the file lacks, or that cannot become the table's, is bad.

        Raises InvalidInput when a schema file that has changed is damaged or gone.
        """
        return decoded_by_halving(values, self._chunk)

    def _chunk(self, values: Sequence[Value]) -> Chunk:
        content = b"".join(values)
        lengths = np.array([len(one) for one in values], np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        ids = _schema_ids(content, starts, lengths)
        parts, places, left_out = [], [], 0
        new: list[pa.Field[Any]] = []
        for schema_id in np.unique(ids).tolist():
            mine = np.flatnonzero(ids == schema_id)
            structs = self._structs(schema_id, content, starts[mine], ends[mine])
            columns = {
                one.name: structs.field(one.name)
                for one in self._schema
                if structs.type.get_field_index(one.name) >= 0
            }
            parts.append(table_of(columns, self._schema, len(mine), is_finite=False))
            places.append(mine)
            left_out += int(np.count_nonzero(brought(structs, self._struct)))
            new += new_fields_of(structs.type, self._schema, is_inferred=False)
        rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        if len(parts) > 1:
            rows = rows.take(np.argsort(np.concatenate(places)))
        return Chunk(rows, tuple(new), left_out)

    def _structs(self, schema_id: int, content: bytes, starts: Ints, ends: Ints) -> Any:
        schema = self._registry.schema(schema_id)
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
            if at >= 0 and not _may_become(structs.type.field(at).type, field.type):
                raise Undecodable(
                    f"{field.name}: schema id {schema_id} has {structs.type.field(at).type}, "
                    f"the table {field.type}"
                )
        return structs


def _schema_ids(content: bytes, starts: Ints, lengths: Ints) -> Ints:
    if (lengths < _PREFIX_BYTES).any():
        raise Undecodable("too short for a schema id")
    prefixes = np.frombuffer(content, np.uint8)[starts[:, None] + np.arange(_PREFIX_BYTES)]
    if prefixes[:, 0].any():
        raise Undecodable("does not begin with a zero byte and a schema id")
    return np.ascontiguousarray(prefixes[:, 1:]).view(">u4").reshape(-1).astype(np.int64)


def _may_become(written: Any, wanted: Any) -> bool:
    """Whether each value of the written type is one of the wanted type, or fails its conversion."""
    types = pa.types
    if written == wanted or types.is_null(written):
        return True
    if types.is_integer(written):
        return bool(types.is_integer(wanted) or types.is_floating(wanted))
    if types.is_floating(written):
        return bool(types.is_float64(wanted))
    if types.is_timestamp(written):
        return bool(types.is_timestamp(wanted)) and (written.tz is None) == (wanted.tz is None)
    if types.is_decimal(written):
        return bool(types.is_decimal(wanted))
    if types.is_list(written) and types.is_list(wanted):
        return _may_become(written.value_type, wanted.value_type)
    if types.is_map(written) and types.is_map(wanted):
        return _may_become(written.item_type, wanted.item_type)
    if types.is_struct(written) and types.is_struct(wanted):
        known = {written.field(at).name: written.field(at).type for at in range(written.num_fields)}
        wanted_fields = (wanted.field(at) for at in range(wanted.num_fields))
        return all(
            one.name not in known or _may_become(known[one.name], one.type) for one in wanted_fields
        )
    return False
