"""Column types by the names that CREATE TABLE gives them, and back."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError

from workers.errors import InvalidInput
from workers.sql.create import column_type
from workers.sql.statements import DIALECT

TYPE_NAMES: Final = (
    "string",
    "bigint",
    "int",
    "double",
    "float",
    "boolean",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(10,2)",
    "binary",
    "array<string>",
)
"""What a person chooses from; others are decimals of other digits, and nested types."""
# What else could stand in a column's definition is no type.
_TYPE = re.compile(r"[A-Za-z_]\w*(?:\(\d+(?:,\d+)?\)|<[\w<>(),:]+>)?")
_AROUND_SIGNS = re.compile(r"\s*([<>(),:])\s*")
_CHARS_MAX = 500
_NESTED_MAX = 8


def type_named(text: str, column: str) -> pa.DataType:
    """The Arrow type that `text` names in CREATE TABLE: `bigint`, `decimal(10,2)`, `array<string>`.

    Raises InvalidInput, which names `column`.
    """
    refusal = InvalidInput("a column of this type cannot be made", column=column, type=text[:80])
    plain = _AROUND_SIGNS.sub(r"\1", text.strip()[: _CHARS_MAX + 1])
    if len(plain) > _CHARS_MAX or plain.count("<") > _NESTED_MAX or not _TYPE.fullmatch(plain):
        raise refusal
    try:
        statement = sqlglot.parse_one(f"CREATE TABLE t (c {plain})", read=DIALECT)
        (definition,) = statement.this.expressions
        return column_type(definition.args["kind"], column)
    except (SqlglotError, ValueError) as error:
        raise refusal from error


def name_of_type(kind: pa.DataType) -> str:
    """How CREATE TABLE names this type; of one that no table holds, what Arrow calls it."""
    types = pa.types
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"array<{name_of_type(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{name_of_type(kind.key_type)},{name_of_type(kind.item_type)}>"
    if types.is_struct(kind):
        members = ",".join(f"{member.name}: {name_of_type(member.type)}" for member in kind)
        return f"struct<{members}>"
    return _SCALARS.get(_settled(kind), str(kind))


_SCALARS: Final = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.float32(): "float",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.binary(): "binary",
}


def _settled(kind: pa.DataType) -> pa.DataType:
    """Of types that a table holds as another one that holds all their values, that one."""
    types = pa.types
    if types.is_large_string(kind) or types.is_null(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_int8(kind) or types.is_int16(kind) or types.is_uint8(kind) or types.is_uint16(kind):
        return pa.int32()
    return pa.int64() if types.is_uint32(kind) else kind
