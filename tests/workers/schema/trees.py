"""Random trees of fields, and random evolutions of them, for property tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Scalar, Struct
from workers.schema.from_arrow import decimal_bytes

NAMES = ["a", "b", "c", "d"]
SCALARS = [
    *(Scalar(kind) for kind in ("int", "long", "float", "double", "string", "boolean")),
    Scalar("long", "timestamp-micros"),
    Scalar("long", "local-timestamp-micros"),
    Scalar("int", "date"),
]
WIDER = {"int": ("long", "double"), "float": ("double",)}


def decimal(precision: int, scale: int) -> Scalar:
    size = decimal_bytes(precision)
    return Scalar("fixed", "decimal", precision, scale, name="fixed", size=size)


DECIMALS = [decimal(*one) for one in ((4, 2), (6, 2), (6, 4), (9, 0), (30, 10), (38, 0), (38, 38))]
scalars = st.sampled_from([*SCALARS, *DECIMALS])


def places(inner: st.SearchStrategy[AvroType]) -> st.SearchStrategy[Place]:
    return st.builds(Place, inner, st.booleans())


def fields(inner: st.SearchStrategy[AvroType]) -> st.SearchStrategy[tuple[Field, ...]]:
    """Optional ones have the default that our engine gives them, as others do or not."""

    def made(name: str, place: Place, has_default: bool) -> Field:
        return Field(name, place, "null" if place.is_nullable and has_default else None)

    any_field = st.builds(made, st.sampled_from(NAMES), places(inner), st.booleans())
    return st.lists(any_field, min_size=1, max_size=3, unique_by=lambda field: field.name).map(
        tuple
    )


types: st.SearchStrategy[AvroType] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        places(inner).map(ListOf), places(inner).map(MapOf), fields(inner).map(Struct)
    ),
    max_leaves=6,
)
trees = fields(types).map(Struct)
optional_fields = st.builds(
    lambda name, kind: Field(name, Place(kind, is_nullable=True), "null"),
    st.sampled_from([*NAMES, "e", "f"]),
    types,
)


@st.composite
def evolved(draw: Any, tree: Struct) -> Struct:
    """`tree` after legal steps: fields added, types widened, columns relaxed, at any depth."""
    made = [draw(_evolved_field(field)) for field in tree.fields]
    for new in draw(st.lists(optional_fields, max_size=2)):
        if new.name not in {field.name for field in made}:
            made.append(new)
    return Struct(tuple(made), tree.is_error)


@st.composite
def _evolved_field(draw: Any, field: Field) -> Field:
    place = draw(_evolved_place(field.place))
    is_relaxed = place.is_nullable and not field.place.is_nullable
    return replace(field, place=place, default="null" if is_relaxed else field.default)


@st.composite
def _evolved_place(draw: Any, place: Place) -> Place:
    is_nullable = place.is_nullable or draw(st.integers(0, 3)) == 0
    return Place(draw(_evolved_type(place.type)), is_nullable)


@st.composite
def _evolved_type(draw: Any, avro_type: AvroType) -> AvroType:
    match avro_type:
        case Struct():
            made: Struct = draw(evolved(avro_type))
            return made
        case ListOf(inner):
            return ListOf(draw(_evolved_place(inner)))
        case MapOf(inner):
            return MapOf(draw(_evolved_place(inner)))
        case Scalar(logical="decimal", precision=precision, scale=scale):
            more, finer = draw(st.sampled_from([(0, 0), (2, 0), (3, 3)]))
            assert precision is not None
            assert scale is not None
            return decimal(precision + more, scale + finer) if precision + more <= 38 else avro_type
        case Scalar(kind=kind, logical=None):
            return Scalar(draw(st.sampled_from([kind, *WIDER.get(kind, ())])))
        case _:
            return avro_type
