"""Equality of two schemas, and their differences (requirements 2.2).

Compared: names with their case, positions, types with logical parameters, nullability, defaults,
sort order, enum symbols, fixed names and sizes. Not compared: record names, namespaces, docs,
aliases, custom properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workers.files.avro_schema import (
    AnyOf,
    AvroType,
    Field,
    ListOf,
    MapOf,
    Place,
    Scalar,
    Struct,
)
from workers.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One path in which two schemas differ, with both sides."""

    path: str
    """`a.b` inside a struct, `a.element` inside a list, `a.value` inside a map."""
    kind: str
    """added | removed | case | type | nullability | default | order | position"""
    left: str | None
    right: str | None

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.path}: added as {self.right}"
            case "removed":
                return f"{self.path}: removed, was {self.left}"
            case "case":
                return f"{self.path}: differs only by case from {self.left}"
            case _:
                return f"{self.path}: {self.kind} {self.left} -> {self.right}"


def equal(a: TableSchema, b: TableSchema) -> bool:
    """Check if both mean the same, which is when `find_differences` returns nothing."""
    return a.tree == b.tree


def canonical_text(schema: TableSchema) -> str:
    """Return a text that is the same for two schemas exactly when they are equal."""
    return _text(schema.tree)


def _text(node: AvroType | Place | Field) -> str:
    match node:
        case Struct(fields, is_error):
            return f"{'error' if is_error else 'record'}({','.join(map(_text, fields))})"
        case Field(name, place, default, order):
            return f"{name!r}:{_text(place)}:{default!r}:{order}"
        case Place(kind, is_nullable):
            return f"{_text(kind)}{'?' if is_nullable else ''}"
        case ListOf(element):
            return f"list({_text(element)})"
        case MapOf(value):
            return f"map({_text(value)})"
        case AnyOf(members):
            return f"any({','.join(sorted(map(_text, members)))})"
        case Scalar():
            return repr(node)


def find_differences(a: TableSchema, b: TableSchema) -> list[FieldDifference]:
    """Return the changes from `a` to `b`; empty exactly when they are equal."""
    return list(_compare_structs("", a.tree, b.tree))


def _compare_structs(prefix: str, left: Struct, right: Struct) -> Iterator[FieldDifference]:
    lefts = {field.name: field for field in left.fields}
    rights = {field.name: field for field in right.fields}
    gone_by_case = {name.lower(): name for name in lefts if name not in rights}
    renamed: set[str] = set()
    for name, field in rights.items():
        path = prefix + name
        if name in lefts:
            yield from _compare_fields(path, lefts[name], field)
        elif old := gone_by_case.get(name.lower()):
            renamed.add(old)
            yield FieldDifference(path, "case", old, name)
        else:
            yield FieldDifference(path, "added", None, str(field.place))
    yield from _find_moves(
        prefix, [n for n in lefts if n in rights], [n for n in rights if n in lefts]
    )
    for name, field in lefts.items():
        if name not in rights and name not in renamed:
            yield FieldDifference(prefix + name, "removed", str(field.place), None)
    if left.is_error != right.is_error:
        kinds = ("error" if left.is_error else "record", "error" if right.is_error else "record")
        yield FieldDifference(prefix.rstrip("."), "type", *kinds)


def _find_moves(prefix: str, before: list[str], after: list[str]) -> Iterator[FieldDifference]:
    for position, name in enumerate(after):
        if before[position] != name:
            old = before.index(name)
            yield FieldDifference(prefix + name, "position", str(old), str(position))


def _compare_fields(path: str, left: Field, right: Field) -> Iterator[FieldDifference]:
    yield from _compare_places(path, left.place, right.place)
    if left.default != right.default:
        yield FieldDifference(path, "default", left.default, right.default)
    if left.order != right.order:
        yield FieldDifference(path, "order", left.order, right.order)


def _compare_places(path: str, left: Place, right: Place) -> Iterator[FieldDifference]:
    if left.is_nullable != right.is_nullable:
        names = {True: "optional", False: "required"}
        kinds = (names[left.is_nullable], names[right.is_nullable])
        yield FieldDifference(path, "nullability", *kinds)
    yield from _compare_types(path, left.type, right.type)


def _compare_types(path: str, left: AvroType, right: AvroType) -> Iterator[FieldDifference]:
    match left, right:
        case Struct(), Struct():
            yield from _compare_structs(f"{path}.", left, right)
        case ListOf(a), ListOf(b):
            yield from _compare_places(f"{path}.element", a, b)
        case MapOf(a), MapOf(b):
            yield from _compare_places(f"{path}.value", a, b)
        case _ if left != right:
            yield FieldDifference(path, "type", str(left), str(right))
        case _:
            pass
