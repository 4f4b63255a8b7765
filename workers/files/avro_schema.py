"""An Avro schema as a tree of plain values, and the Arrow types that its columns have in memory.

Names of records, namespaces, docs, aliases and custom properties are not in the tree: two trees are
equal exactly when two schemas are (requirements 2.2). Nullability belongs to the place, not to the
type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from workers.errors import MalformedTable, UnsupportedTable

_DEPTH_MAX = 64
_UNREAD = {"variant": "VARIANT", "blob": "BLOB", "vector": "VECTOR"}
"""Logical types of Hudi that are not read; a vector's has its size behind the name."""
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A primitive, or `fixed` and `enum`, with the logical type that gives it meaning."""

    kind: str
    logical: str | None = None
    precision: int | None = None
    scale: int | None = None
    name: str | None = None
    """The name of a fixed or an enum: part of equality."""
    size: int | None = None
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = self.logical or self.kind
        if self.logical == "decimal":
            storage = self.kind if self.size is None else f"{self.kind}[{self.size}]"
            text = f"decimal({self.precision},{self.scale}) as {storage}"
        elif self.kind == "fixed":
            text += f" {self.name}[{self.size}]"
        elif self.kind == "enum":
            text = f"enum {self.name}({','.join(self.symbols)})"
        return text


@dataclass(frozen=True, slots=True)
class Place:
    """The type of a value, and whether it may be null."""

    type: AvroType
    is_nullable: bool

    def __str__(self) -> str:
        return f"{self.type}?" if self.is_nullable else str(self.type)


@dataclass(frozen=True, slots=True)
class ListOf:
    """An Avro array."""

    element: Place

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    """An Avro map, whose keys are always strings."""

    value: Place

    def __str__(self) -> str:
        return f"map<string,{self.value}>"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A union of more than one type besides null; the order of its members means nothing."""

    members: frozenset[AvroType]

    def __str__(self) -> str:
        return f"union<{','.join(sorted(map(str, self.members)))}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: all that two schemas can differ in about it."""

    name: str
    place: Place
    default: str | None
    """As JSON text; None when there is none, which is not the same as a default of null."""
    order: str = "ascending"


@dataclass(frozen=True, slots=True)
class Struct:
    """A record, or an error: its fields in order. A record's own name does not belong to it."""

    fields: tuple[Field, ...]
    is_error: bool = False
    _by_name: Mapping[str, Field] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {field.name: field for field in self.fields[::-1]})

    def field(self, name: str) -> Field | None:
        """Return the field of exactly this name, or None."""
        return self._by_name.get(name)

    def __str__(self) -> str:
        return f"struct<{','.join(f'{field.name}:{field.place}' for field in self.fields)}>"


AvroType = Scalar | ListOf | MapOf | AnyOf | Struct


def record_of_json(text: str) -> dict[str, Any]:
    """Parse a record schema to a dict. Raises MalformedTable."""
    try:
        avro = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedTable("schema is not json", text=text[:200]) from error
    if not isinstance(avro, dict) or not isinstance(avro.get("fields"), list):
        raise MalformedTable("schema is not an avro record", text=text[:200])
    return avro


def parse_record(avro: Mapping[str, Any]) -> Struct:
    """Return the tree of a table's record schema.

    Raises MalformedTable, UnsupportedTable for a recursive type and for VARIANT and its like.
    """
    try:
        parsed = _Parser().type(avro, namespace="")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MalformedTable("not an avro schema", name=avro.get("name")) from error
    if not isinstance(parsed, Struct):
        raise MalformedTable("avro schema of a table is not a record", found=parsed)
    return parsed


class _Parser:
    """Remembers named types, which Avro defines once and then refers to by name."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}
        self._depth = 0

    def place(self, avro: Any, namespace: str) -> Place:
        if not isinstance(avro, list):
            return Place(self.type(avro, namespace), is_nullable=avro == "null")
        members = [self.type(member, namespace) for member in avro if member != "null"]
        is_nullable = "null" in avro
        if len(members) == 1:
            return Place(members[0], is_nullable)
        if not members:
            return Place(Scalar("null"), is_nullable=True)
        return Place(AnyOf(frozenset(members)), is_nullable)

    def type(self, avro: Any, namespace: str) -> AvroType:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise UnsupportedTable("schema is nested too deeply", depth_max=_DEPTH_MAX)
        avro_type = self._type(avro, namespace)
        self._depth -= 1
        return avro_type

    def _type(self, avro: Any, namespace: str) -> AvroType:
        if isinstance(avro, str):
            return Scalar(avro) if avro in _PRIMITIVES else self._reference(avro, namespace)
        if isinstance(avro, list):
            raise MalformedTable("union inside a union", found=avro)
        _check_read(avro)
        kind = avro["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace)
        match kind:
            case "record" | "error":
                return self._struct(avro, kind, namespace)
            case "array":
                return ListOf(self.place(avro["items"], namespace))
            case "map":
                return MapOf(self.place(avro["values"], namespace))
            case "fixed" | "enum":
                return self._remember(avro, namespace, _scalar(avro, kind))
            case _ if kind in _PRIMITIVES:
                return _scalar(avro, kind)
            case _:
                return self._reference(kind, namespace)

    def _struct(self, avro: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        full_name = _full_name(avro, namespace)
        self._named[full_name] = None  # Known but unfinished: a reference from inside is recursion.
        inner = full_name.rpartition(".")[0]
        fields = tuple(
            Field(
                name=str(field["name"]),
                place=self.place(field["type"], inner),
                default=_default(field),
                order=field.get("order", "ascending"),
            )
            for field in avro["fields"]
        )
        return self._remember(avro, namespace, Struct(fields, is_error=kind == "error"))

    def _remember(self, avro: Mapping[str, Any], namespace: str, avro_type: AvroType) -> AvroType:
        self._named[_full_name(avro, namespace)] = avro_type
        return avro_type

    def _reference(self, name: str, namespace: str) -> AvroType:
        for full_name in (f"{namespace}.{name}" if namespace else name, name):
            if full_name in self._named:
                avro_type = self._named[full_name]
                if avro_type is None:
                    raise UnsupportedTable("schema contains itself", type=name)
                return avro_type
        raise MalformedTable("schema refers to an unknown type", type=name)


def _check_read(avro: Mapping[str, Any]) -> None:
    logical = str(avro.get("logicalType", "")).partition("(")[0].strip().lower()
    if logical in _UNREAD:
        raise UnsupportedTable(
            f"columns of type {_UNREAD[logical]} are not read", type=avro.get("name", logical)
        )


def _default(field: Mapping[str, Any]) -> str | None:
    if "default" not in field:
        return None
    default = field["default"]
    return "null" if default is None else json.dumps(default, sort_keys=True)


def _full_name(avro: Mapping[str, Any], namespace: str) -> str:
    name = str(avro["name"])
    own = avro.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def _scalar(avro: Mapping[str, Any], kind: str) -> Scalar:
    logical = avro.get("logicalType")
    is_decimal = logical == "decimal"
    return Scalar(
        kind=kind,
        logical=str(logical) if logical is not None else None,
        precision=int(avro["precision"]) if is_decimal else None,
        scale=int(avro.get("scale", 0)) if is_decimal else None,
        name=str(avro["name"]).rpartition(".")[2] if kind in ("fixed", "enum") else None,
        size=int(avro["size"]) if kind == "fixed" else None,
        symbols=tuple(map(str, avro.get("symbols", ()))),
    )


_PLAIN_ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL_ARROW: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def arrow_type(avro_type: AvroType) -> pa.DataType:
    """Return the Arrow type of an Avro type, nested ones included. Raises UnsupportedTable for a
    union of several types, or a decimal that Arrow has not.
    """
    match avro_type:
        case Scalar(logical="decimal", precision=precision, scale=scale):
            assert precision is not None, avro_type
            assert scale is not None, avro_type
            if precision > 38:
                raise UnsupportedTable("decimal is wider than 38 digits", type=avro_type)
            return pa.decimal128(precision, scale)
        case Scalar(kind=kind, logical=logical):
            return _LOGICAL_ARROW.get((kind, logical or ""), _PLAIN_ARROW[kind])
        case ListOf(element):
            return pa.list_(pa.field("element", arrow_type(element.type)))
        case MapOf(value):
            return pa.map_(pa.string(), arrow_type(value.type))
        case Struct(fields):
            return pa.struct(arrow_fields(fields))
        case AnyOf():
            raise UnsupportedTable("column is a union of several types", type=avro_type)


def arrow_fields(fields: tuple[Field, ...]) -> list[pa.Field[Any]]:
    """Return nullable fields at every level: required values are checked on writing, not in
    memory.
    """
    return [pa.field(field.name, arrow_type(field.place.type)) for field in fields]
