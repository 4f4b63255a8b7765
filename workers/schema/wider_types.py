"""The types that hold every value of two others, without loss and in their order (requirements
2.4).

The lossless part of Hudi's promotions only: `int < long`, `int < double`, `float < double`, wider
decimals. Long and double have no common upper bound here, nor has anything with text: beyond 2^53 a
double loses digits, and text sorts differently.
"""

from __future__ import annotations

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Scalar, Struct
from workers.schema.from_arrow import DECIMAL_DIGITS_MAX, decimal_bytes

_JOINS: dict[frozenset[str], str] = {
    frozenset(("int", "long")): "long",
    frozenset(("int", "double")): "double",
    frozenset(("float", "double")): "double",
}
_ALIKE = ({Scalar("int"), Scalar("long")}, {Scalar("float"), Scalar("double")})


def common_type(table: AvroType, batch: AvroType) -> AvroType | None:
    """Return the least type that holds both, spelled as `table` if possible; None if there is
    none.
    """
    if table == batch:
        return table
    match table, batch:
        case Scalar(logical="decimal"), Scalar(logical="decimal"):
            return _common_decimal(table, batch)
        case Scalar(), Scalar():
            return _common_scalar(table, batch)
        case ListOf(left), ListOf(right):
            place = common_place(left, right)
            return ListOf(place) if place else None
        case MapOf(left), MapOf(right):
            place = common_place(left, right)
            return MapOf(place) if place else None
        case Struct(), Struct():
            return _common_struct(table, batch)
        case _:
            return None


def common_place(table: Place, batch: Place) -> Place | None:
    """Return the common place; a required place of the table stays required, whatever type a batch
    has.
    """
    joined_type = common_type(table.type, batch.type)
    return Place(joined_type, table.is_nullable) if joined_type else None


def can_hold(wide: AvroType, narrow: AvroType) -> bool:
    """Check if every value of `narrow` is one of `wide`."""
    return common_type(wide, narrow) == wide


def _common_scalar(table: Scalar, batch: Scalar) -> Scalar | None:
    if table.logical == "timestamp-micros" and batch.logical == "timestamp-millis":
        return table
    if table.logical == "local-timestamp-micros" and batch.logical == "local-timestamp-millis":
        return table
    if table.logical or batch.logical:
        return None
    if table.kind == "string" and batch.kind == "enum":
        return table
    kind = _JOINS.get(frozenset((table.kind, batch.kind)))
    return Scalar(kind) if kind else None


def _common_decimal(table: Scalar, batch: Scalar) -> Scalar | None:
    precisions, scales = (table.precision, batch.precision), (table.scale, batch.scale)
    assert None not in precisions + scales, (table, batch)
    scale = max(table.scale or 0, batch.scale or 0)
    whole = max((scalar.precision or 0) - (scalar.scale or 0) for scalar in (table, batch))
    if whole + scale > DECIMAL_DIGITS_MAX:
        return None
    if (table.precision, table.scale) == (whole + scale, scale):
        return table
    size, name = decimal_bytes(whole + scale), "fixed"
    return Scalar("fixed", "decimal", whole + scale, scale, name=name, size=size)


def _common_struct(table: Struct, batch: Struct) -> Struct | None:
    fields: list[Field] = []
    for field in table.fields:
        other = batch.field(field.name)
        if other is None:
            fields.append(field)
            continue
        place = common_place(field.place, other.place)
        if place is None:
            return None
        fields.append(Field(field.name, place, field.default, field.order))
    names = {field.name.lower() for field in table.fields}
    for field in batch.fields:
        if table.field(field.name) is None:
            if field.name.lower() in names or not can_add(field):
                return None
            fields.append(field)
    return Struct(tuple(fields), table.is_error)


def preserves_order(left: Place | None, right: Place | None) -> bool:
    """Check if ordering values of these types compare alike in every reader: one type, int with
    long, float with double, and decimals of one scale. hudi-rs compares an int with a double as it
    is stored, and takes the older row.
    """
    if left is None or right is None or left == right:
        return left == right
    kinds = {left.type, right.type}
    is_alike = kinds in _ALIKE or _are_decimals_of_one_scale(left.type, right.type)
    return left.is_nullable == right.is_nullable and is_alike


def _are_decimals_of_one_scale(left: AvroType, right: AvroType) -> bool:
    match left, right:
        case Scalar(logical="decimal"), Scalar(logical="decimal"):
            return left.scale == right.scale
        case _:
            return False


def can_add(field: Field) -> bool:
    """Check that rows written before it can be read: as null, or as its default."""
    return field.place.is_nullable or field.default is not None


def is_evolution(old: Struct, new: Struct) -> bool:
    """Check if data of `old` is readable under `new`: nothing dropped, renamed, narrowed or newly
    required.
    """
    return all(
        (later := new.field(field.name)) is not None
        and _is_place_evolution(field.place, later.place)
        for field in old.fields
    ) and all(can_add(field) for field in new.fields if old.field(field.name) is None)


def _is_place_evolution(old: Place, new: Place) -> bool:
    if old.is_nullable and not new.is_nullable:
        return False
    match old.type, new.type:
        case Struct(), Struct():
            return is_evolution(old.type, new.type)
        case (ListOf(a), ListOf(b)) | (MapOf(a), MapOf(b)):
            return _is_place_evolution(a, b)
        case before, after:
            return before == after or common_type(before, after) == after
