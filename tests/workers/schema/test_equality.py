"""When two schemas are the same (requirements 2.2), one rule a row."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.schema.equality import equal, find_differences
from workers.schema.table_schema import TableSchema

STRING = {"name": "a", "type": "string"}


def schema(*fields: Any, **attributes: Any) -> TableSchema:
    avro = {"type": "record", "name": "r", "namespace": "n", "fields": list(fields), **attributes}
    return TableSchema.from_avro_json(json.dumps(avro))


def field(avro_type: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": "a", "type": avro_type, **attributes}


def decimal(kind: str = "fixed", **changes: Any) -> dict[str, Any]:
    plain = {"type": kind, "logicalType": "decimal", "precision": 10, "scale": 2}
    return {**plain, **({"name": "fixed", "size": 5} if kind == "fixed" else {}), **changes}


def enum(*symbols: str, name: str = "E") -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def micros(logical: str = "timestamp-micros") -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (field("string"), field("string", doc="what it is")),
        (field("string"), field("string", aliases=["b"])),
        (field("string"), field("string", owner="me")),
        (field("string"), field({"type": "string", "avro.java.string": "String"})),
        (field(["null", "string"]), field(["string", "null"])),
        (field(decimal()), field(decimal(namespace="elsewhere"))),
        (field("string"), field("string", order="ascending")),
        (
            field({"type": "record", "name": "x", "fields": [STRING]}),
            field({"type": "record", "name": "y", "namespace": "z", "fields": [STRING]}),
        ),
    ],
)
def test_what_is_only_noise_leaves_two_schemas_equal(left: Any, right: Any) -> None:
    assert equal(schema(left), schema(right))
    assert find_differences(schema(left), schema(right)) == []


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (field("string"), {"name": "b", "type": "string"}, "added"),
        (field("string"), {"name": "A", "type": "string"}, "case"),
        (field("int"), field("long"), "type"),
        (field("string"), field("bytes"), "type"),
        (field("string"), field(["null", "string"]), "nullability"),
        (field(["null", "string"]), field(["null", "string"], default=None), "default"),
        (field("int", default=1), field("int", default=2), "default"),
        (field("int"), field("int", order="descending"), "order"),
        (field(decimal()), field(decimal(precision=9)), "type"),
        (field(decimal()), field(decimal(scale=3)), "type"),
        (field(decimal()), field(decimal("bytes")), "type"),
        (field(decimal()), field(decimal(size=6)), "type"),
        (field(decimal()), field(decimal(name="other")), "type"),
        (field(micros()), field(micros("timestamp-millis")), "type"),
        (field(micros()), field(micros("local-timestamp-micros")), "type"),
        (field(micros()), field("long"), "type"),
        (field(enum("A", "B")), field(enum("B", "A")), "type"),
        (field(enum("A")), field(enum("A", name="F")), "type"),
        (
            field({"type": "array", "items": "int"}),
            field({"type": "array", "items": ["null", "int"]}),
            "nullability",
        ),
        (
            field({"type": "map", "values": "int"}),
            field({"type": "map", "values": "long"}),
            "type",
        ),
        (
            field({"type": "record", "name": "x", "fields": [STRING]}),
            field({"type": "error", "name": "x", "fields": [STRING]}),
            "type",
        ),
    ],
)
def test_what_readers_can_tell_apart_makes_two_schemas_different(
    left: Any, right: Any, kind: str
) -> None:
    a, b = schema(left), schema(right)

    assert not equal(a, b)
    assert not equal(b, a)
    assert kind in {difference.kind for difference in find_differences(a, b)}


def test_reordered_columns_are_different_and_the_moved_ones_are_named() -> None:
    a, b, c = ({"name": name, "type": "int"} for name in "abc")

    changes = find_differences(schema(a, b, c), schema(c, a, b))

    assert [(one.path, one.kind) for one in changes] == [
        ("c", "position"),
        ("a", "position"),
        ("b", "position"),
    ]


def test_a_difference_says_where_it_is_however_deep() -> None:
    def deep(leaf: str) -> TableSchema:
        struct = {"type": "record", "name": "s", "fields": [{"name": "x", "type": leaf}]}
        return schema(
            field({"type": "array", "items": ["null", {"type": "map", "values": struct}]})
        )

    [difference] = find_differences(deep("int"), deep("long"))

    assert (difference.path, difference.kind) == ("a.element.value.x", "type")
    assert str(difference) == "a.element.value.x: type int -> long"


def test_a_sentence_names_what_was_added_removed_and_respelled() -> None:
    before = schema({"name": "Email", "type": "string"}, {"name": "age", "type": "int"})
    after = schema({"name": "email", "type": "string"}, {"name": "f3", "type": ["null", "boolean"]})

    assert [str(one) for one in find_differences(before, after)] == [
        "email: differs only by case from Email",
        "f3: added as boolean?",
        "age: removed, was int",
    ]


LEAVES: list[Any] = ["int", "long", "string", ["null", "int"], decimal(), micros(), enum("A", "B")]
TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
    ),
    max_leaves=3,
)
FIELDS = st.lists(
    st.builds(
        lambda name, avro, extra: {"name": name, "type": avro, **extra},
        st.sampled_from("abAB"),
        TYPES,
        st.sampled_from([{}, {"default": None}, {"doc": "x"}, {"order": "ignore"}]),
    ),
    max_size=3,
    unique_by=lambda field: str(field["name"]),
)


def distinct(fields: list[dict[str, Any]]) -> list[Any]:
    """Avro defines a named type once: give each column's its own namespace."""
    renamed_fields = copy.deepcopy(fields)

    def rename(avro: Any, space: str) -> None:
        if isinstance(avro, dict):
            if "name" in avro and "namespace" not in avro:
                avro["namespace"] = space
            for key in ("items", "values", "type"):
                rename(avro.get(key), space)

    for field in renamed_fields:
        rename(field["type"], f"n.{field['name']}")
    return renamed_fields


@settings(deadline=None)
@given(FIELDS, FIELDS)
def test_two_schemas_are_equal_exactly_when_no_difference_is_found(
    left: list[Any], right: list[Any]
) -> None:
    a, b = schema(*distinct(left)), schema(*distinct(right))

    assert equal(a, b) == (find_differences(a, b) == [])
    assert equal(a, b) == equal(b, a)
    assert equal(a, a)
