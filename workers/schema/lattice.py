"""The order of types along which two schemas are reconciled (requirements 2.4).

Only promotions that lose nothing and keep the order of values: `int < long`, `int < double`, `float
< double`, wider decimals, and the same inside structs, lists and maps. It is stricter than
`wider_types`, which also defines the types that a batch may have, and symmetric: the order of the
commits does not matter.
"""

from __future__ import annotations

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Scalar, Struct
from workers.schema.wider_types import can_add, common_type


def join(left: AvroType, right: AvroType) -> AvroType | None:
    """Return the least type that holds every value of both; None if there is none.

    Fields of a struct that only one has follow the left's; they must be optional or have a default.
    """
    if left == right:
        return left
    match left, right:
        case Struct(), Struct():
            return _join_structs(left, right)
        case ListOf(a), ListOf(b):
            place = join_places(a, b)
            return ListOf(place) if place else None
        case MapOf(a), MapOf(b):
            place = join_places(a, b)
            return MapOf(place) if place else None
        case Scalar(), Scalar() if _is_number(left) and _is_number(right):
            return common_type(left, right)
        case _:
            return None


def join_places(left: Place, right: Place) -> Place | None:
    """Join two places; the result is optional if one of them is."""
    joined_type = join(left.type, right.type)
    return Place(joined_type, left.is_nullable or right.is_nullable) if joined_type else None


def join_fields(left: Field, right: Field) -> Field | None:
    """Join a field that both writers added, or made optional; None if that is not possible."""
    if left == right:
        return left
    if (left.default, left.order) != (right.default, right.order):
        return None
    if not (left.place.is_nullable and right.place.is_nullable):
        return None
    place = join_places(left.place, right.place)
    return Field(left.name, place, left.default, left.order) if place else None


def is_below(narrow: AvroType, wide: AvroType) -> bool:
    """Check if files with `narrow` are readable under `wide` without loss."""
    match narrow, wide:
        case Struct(), Struct():
            return narrow.is_error == wide.is_error and _is_struct_below(narrow, wide)
        case (ListOf(a), ListOf(b)) | (MapOf(a), MapOf(b)):
            return _is_place_below(a, b)
        case _:
            return join(narrow, wide) == wide


def _is_place_below(narrow: Place, wide: Place) -> bool:
    return is_below(narrow.type, wide.type) and (wide.is_nullable or not narrow.is_nullable)


def _is_struct_below(narrow: Struct, wide: Struct) -> bool:
    return all(
        (other := wide.field(field.name)) is not None and _is_place_below(field.place, other.place)
        for field in narrow.fields
    ) and all(can_add(field) for field in wide.fields if narrow.field(field.name) is None)


def _is_number(scalar: Scalar) -> bool:
    is_plain = scalar.logical is None and scalar.kind in ("int", "long", "float", "double")
    return is_plain or scalar.logical == "decimal"


def _join_structs(left: Struct, right: Struct) -> Struct | None:
    if left.is_error != right.is_error:
        return None
    fields: list[Field] = []
    for field in left.fields:
        other = right.field(field.name)
        if other is None:
            joined_field = field if can_add(field) else None
        else:
            joined_field = join_fields(field, other)
        if joined_field is None:
            return None
        fields.append(joined_field)
    added = [field for field in right.fields if left.field(field.name) is None]
    names = [field.name.lower() for field in (*fields, *added)]
    if len(set(names)) < len(names) or not all(map(can_add, added)):
        return None
    return Struct((*fields, *added), left.is_error)
