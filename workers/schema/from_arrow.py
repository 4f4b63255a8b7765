"""From an Arrow schema to Hudi's spelling of it in Avro, and from any Arrow type to ours.

What is declared `nullable=False` is required, all else is nullable with a default of null. Names of
nested records and decimals follow the column's path, so that Java finds no name defined twice.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.names import check_column_name

_PRIMITIVES: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "bytes",
}
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
"""Types that the format lacks, and the next types that hold all of their values."""
DECIMAL_DIGITS_MAX = 38


def avro_field(field: pa.Field[Any], *, parent: str) -> dict[str, Any]:
    """An Avro field of the record whose full name is `parent`, as nullable as it is in Arrow.

    Raises InvalidInput naming the column.
    """
    check_column_name(field.name)
    path = f"{parent}.{field.name}"
    avro = _avro_type(normal_type(field.type, column=field.name), field.name, parent, path)
    if not field.nullable:
        return {"name": field.name, "type": avro}
    return {"name": field.name, "type": ["null", avro], "default": None}


def optional(schema: pa.Schema) -> pa.Schema:
    """The same columns, none of them required at any level."""
    return pa.schema([field.with_nullable(True).with_type(_loose(field.type)) for field in schema])


def _loose(source: Any) -> pa.DataType:
    if is_list(source):
        return pa.list_(pa.field("element", _loose(source.value_type)))
    if pa.types.is_map(source):
        return pa.map_(source.key_type, _loose(source.item_type))
    if pa.types.is_struct(source):
        children = [source.field(at) for at in range(source.num_fields)]
        return pa.struct([pa.field(child.name, _loose(child.type)) for child in children])
    assert isinstance(source, pa.DataType), source
    return source


def unwrap_type(source: Any) -> pa.DataType:
    """Return the type of the values without encoding (dictionary, run-end) and extension type."""
    while True:
        if isinstance(source, pa.UuidType):
            return pa.string()
        if isinstance(source, pa.BaseExtensionType) and not is_opaque(source):
            source = pa.bool_() if source == pa.bool8() else source.storage_type
        elif pa.types.is_dictionary(source) or pa.types.is_run_end_encoded(source):
            source = source.value_type
        else:
            assert isinstance(source, pa.DataType), source
            return source


def is_opaque(source: Any) -> bool:
    """Check whether this is an extension type whose storage means nothing without it: a period of
    pandas is stored as a number, and its frequency is part of the type.
    """
    is_extension = isinstance(source, pa.BaseExtensionType)
    return is_extension and source.extension_name.startswith("pandas.")


def is_list(source: pa.DataType) -> bool:
    """Check whether this is a list type of any layout."""
    types = pa.types
    is_plain = (
        types.is_list(source) or types.is_large_list(source) or types.is_fixed_size_list(source)
    )
    return is_plain or types.is_list_view(source) or types.is_large_list_view(source)


def has_no_value(source: Any) -> bool:
    """Check whether columns of the type hold only nulls, `[]` and `{}`."""
    source = unwrap_type(source)
    if is_list(source):
        return has_no_value(source.value_type)
    if pa.types.is_map(source):
        return has_no_value(source.key_type)
    if pa.types.is_struct(source):
        return all(has_no_value(child.type) for child in source)
    return bool(pa.types.is_null(source))


def normal_type(source: pa.DataType, *, column: str) -> pa.DataType:
    """The plain type with the same values: no large, view, dictionary or fixed-size variants, no
    unsigned integers, and no field of a struct that has no value in any row.

    Raises InvalidInput for a type that the format cannot hold.
    """
    types = pa.types
    source = unwrap_type(source)
    plain: Any = source
    if types.is_large_string(source) or types.is_string_view(source):
        return pa.string()
    if types.is_large_binary(source) or types.is_fixed_size_binary(source):
        return pa.binary()
    if types.is_binary_view(source):
        return pa.binary()
    if source in _WIDER:
        return _WIDER[source]
    if types.is_date64(source):
        return pa.date32()
    if types.is_timestamp(source):
        # Nanoseconds are pandas' habit; a value that needs them is refused when it is cast.
        unit: Literal["ms", "us"] = "ms" if source.unit in ("s", "ms") else "us"
        return pa.timestamp(unit, "UTC" if source.tz else None)
    if types.is_decimal(source):
        return _normal_decimal(source, column=column)
    if is_list(source):
        element = normal_type(plain.value_type, column=column)
        return pa.list_(pa.field("element", element, nullable=plain.value_field.nullable))
    if types.is_map(source):
        return _normal_map(source, column=column)
    if types.is_struct(source):
        return _normal_struct(source, column=column)
    if source in _PRIMITIVES or source == pa.date32():
        return source
    raise InvalidInput(
        "column has a type that the table cannot hold; bring it as text or as a number",
        column=column,
        type=source,
    )


def _normal_decimal(source: Any, *, column: str) -> pa.DataType:
    if source.precision > DECIMAL_DIGITS_MAX or not 0 <= source.scale <= source.precision:
        raise InvalidInput("decimal is wider than the table can hold", column=column, type=source)
    return pa.decimal128(source.precision, source.scale)


def _normal_map(source: Any, *, column: str) -> pa.DataType:
    if normal_type(source.key_type, column=column) != pa.string():
        raise InvalidInput("map keys must be text", column=column, type=source)
    value = normal_type(source.item_type, column=column)
    item: Any = pa.field("value", value, nullable=source.item_field.nullable)
    return pa.map_(pa.string(), item)


def _normal_struct(source: Any, *, column: str) -> pa.DataType:
    children = [child for child in source if not has_no_value(child.type)]
    names = [check_column_name(child.name) for child in children]
    if not names:
        raise InvalidInput("struct has no fields with a value", column=column)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidInput("struct has two fields of one name", column=column, fields=names)
    return pa.struct(
        [child.with_type(normal_type(child.type, column=column)) for child in children]
    )


def _avro_type(arrow_type: Any, name: str, parent: str, path: str) -> Any:
    if arrow_type in _PRIMITIVES:
        return _PRIMITIVES[arrow_type]
    if pa.types.is_date32(arrow_type):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(arrow_type):
        zone = "" if arrow_type.tz else "local-"
        unit = "millis" if arrow_type.unit == "ms" else "micros"
        return {"type": "long", "logicalType": f"{zone}timestamp-{unit}"}
    if pa.types.is_decimal(arrow_type):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": path,
            "size": decimal_bytes(arrow_type.precision),
            "logicalType": "decimal",
            "precision": arrow_type.precision,
            "scale": arrow_type.scale,
        }
    if pa.types.is_list(arrow_type):
        items = _avro_type(arrow_type.value_type, name, parent, path)
        is_nullable = arrow_type.value_field.nullable
        return {"type": "array", "items": ["null", items] if is_nullable else items}
    if pa.types.is_map(arrow_type):
        values = _avro_type(arrow_type.item_type, name, parent, path)
        is_nullable = arrow_type.item_field.nullable
        return {"type": "map", "values": ["null", values] if is_nullable else values}
    assert pa.types.is_struct(arrow_type), arrow_type
    children = [arrow_type.field(at) for at in range(arrow_type.num_fields)]
    fields = [avro_field(child, parent=path) for child in children]
    return {"type": "record", "name": name, "namespace": parent, "fields": fields}


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every number of `precision` digits, with its sign."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1
