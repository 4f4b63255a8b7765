"""A field of the tree in Avro's spelling. Nested names follow the column's path, as in
`from_arrow`, so that no name is defined twice.
"""

from __future__ import annotations

import json
from typing import Any

from workers.errors import UnsupportedTable
from workers.files.avro_schema import AnyOf, AvroType, Field, ListOf, MapOf, Place, Scalar, Struct


def field_to_avro(field: Field, *, parent: str) -> dict[str, Any]:
    """Convert `field` of the record whose full name is `parent`.

    Raises UnsupportedTable for a union of several types.
    """
    avro: dict[str, Any] = {"name": field.name, "type": _place_to_avro(field, parent)}
    if field.default is not None:
        avro["default"] = json.loads(field.default)
    if field.order != "ascending":
        avro["order"] = field.order
    return avro


def _place_to_avro(field: Field, parent: str) -> Any:
    spelled = _union_to_avro(field.place, field.name, parent)
    # Avro wants the type of the default first.
    is_other = field.default is not None and json.loads(field.default) is not None
    return spelled[::-1] if is_other and isinstance(spelled, list) else spelled


def _union_to_avro(place: Place, name: str, parent: str) -> Any:
    spelled = _type_to_avro(place.type, name, parent)
    return ["null", spelled] if place.is_nullable and spelled != "null" else spelled


def _type_to_avro(node: AvroType, name: str, parent: str) -> Any:
    path = f"{parent}.{name}"
    match node:
        case Scalar():
            return _scalar_to_avro(node, path)
        case ListOf(element):
            return {"type": "array", "items": _union_to_avro(element, name, parent)}
        case MapOf(value):
            return {"type": "map", "values": _union_to_avro(value, name, parent)}
        case Struct():
            kind = "error" if node.is_error else "record"
            fields = [field_to_avro(field, parent=path) for field in node.fields]
            return {"type": kind, "name": name, "namespace": parent, "fields": fields}
        case AnyOf():
            raise UnsupportedTable("column is a union of several types", type=node)


def _scalar_to_avro(scalar: Scalar, path: str) -> Any:
    avro: dict[str, Any] = {"type": scalar.kind}
    if scalar.name is not None:
        avro |= {"name": scalar.name, "namespace": path}
    if scalar.kind == "enum":
        avro["symbols"] = list(scalar.symbols)
    if scalar.size is not None:
        avro["size"] = scalar.size
    if scalar.logical is not None:
        avro["logicalType"] = scalar.logical
    if scalar.logical == "decimal":
        avro |= {"precision": scalar.precision, "scale": scalar.scale}
    return avro if len(avro) > 1 else scalar.kind
