"""Two schemas of a table side by side: a tree of fields with what became of each, and whether files
of the older one still read under the newer. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from controlplane.mirror.queries.table_details import field_changes
from workers.errors import LakehouseError
from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Struct
from workers.schema.table_schema import TableSchema
from workers.schema.wider_types import can_add, common_type

Change = Literal["same", "added", "removed", "changed", "moved"]
Verdict = Literal["same", "compatible", "breaking", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    path: str
    name: str
    depth: int
    before: str
    """The type, empty where the field is not there."""
    after: str
    change: Change
    words: str = ""
    """What changed, beyond the types that are shown."""
    is_breaking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDiff:
    nodes: list[SchemaNode]
    verdict: Verdict
    sentence: str

    @property
    def changed(self) -> int:
        return sum(node.change != "same" for node in self.nodes)


_SENTENCES: dict[Verdict, str] = {
    "same": "The two schemas are equal.",
    "compatible": "Files written with the older schema read under the newer one without loss.",
    "breaking": "Files written with the older schema do not read unchanged under the newer one.",
    "unknown": "One of the two cannot be parsed here; top-level names and types are compared.",
}


def schema_diff(older: Mapping[str, Any], newer: Mapping[str, Any]) -> SchemaDiff:
    """From one Avro record to another, nested fields included."""
    try:
        left = TableSchema.from_avro(dict(older)).tree
        right = TableSchema.from_avro(dict(newer)).tree
    except (LakehouseError, KeyError, TypeError, ValueError):
        return SchemaDiff(
            nodes=_flat(older, newer), verdict="unknown", sentence=_SENTENCES["unknown"]
        )
    nodes = list(_structs("", 0, left, right))
    verdict = _verdict(nodes)
    return SchemaDiff(nodes=nodes, verdict=verdict, sentence=_SENTENCES[verdict])


def _verdict(nodes: list[SchemaNode]) -> Verdict:
    if any(node.is_breaking for node in nodes):
        return "breaking"
    return "same" if all(node.change == "same" for node in nodes) else "compatible"


def _structs(prefix: str, depth: int, left: Struct, right: Struct) -> Iterator[SchemaNode]:
    """Fields in the order of the newer one; those that are gone come last."""
    lefts = [field.name for field in left.fields if right.field(field.name)]
    rights = [field.name for field in right.fields if left.field(field.name)]
    moved = {name for before, name in zip(lefts, rights, strict=True) if before != name}
    for field in right.fields:
        old = left.field(field.name)
        if old is None:
            yield from _added(prefix, depth, field)
        else:
            yield from _field(prefix, depth, old, field, is_moved=field.name in moved)
    for field in left.fields:
        if right.field(field.name) is None:
            yield SchemaNode(
                path=prefix + field.name,
                name=field.name,
                depth=depth,
                before=_short(field.place),
                after="",
                change="removed",
                words="its values are not read any more",
                is_breaking=True,
            )


def _added(prefix: str, depth: int, field: Field) -> Iterator[SchemaNode]:
    is_breaking = not can_add(field)
    yield SchemaNode(
        path=prefix + field.name,
        name=field.name,
        depth=depth,
        before="",
        after=_short(field.place),
        change="added",
        words="required and without a default: older rows have no value for it"
        if is_breaking
        else "older rows read as null" + (f", default {field.default}" if field.default else ""),
        is_breaking=is_breaking,
    )
    for child in _children(field.place.type):
        yield from _added(f"{prefix}{field.name}.", depth + 1, child)


def _field(
    prefix: str, depth: int, old: Field, new: Field, *, is_moved: bool
) -> Iterator[SchemaNode]:
    words, is_breaking = _difference(old.place, new.place)
    if old.default != new.default:
        words.append(f"default {old.default or 'none'} → {new.default or 'none'}")
    if is_moved:
        words.append("stands at another position")
    is_changed = bool(words) and words != ["stands at another position"]
    yield SchemaNode(
        path=prefix + new.name,
        name=new.name,
        depth=depth,
        before=_short(old.place),
        after=_short(new.place),
        change="changed" if is_changed else "moved" if is_moved else "same",
        words="; ".join(words),
        is_breaking=is_breaking,
    )
    yield from _inside(f"{prefix}{new.name}.", depth + 1, old.place.type, new.place.type)


def _inside(prefix: str, depth: int, old: AvroType, new: AvroType) -> Iterator[SchemaNode]:
    match old, new:
        case Struct(), Struct():
            yield from _structs(prefix, depth, old, new)
        case (ListOf(Place(Struct() as before)), ListOf(Place(Struct() as after))) | (
            MapOf(Place(Struct() as before)),
            MapOf(Place(Struct() as after)),
        ):
            yield from _structs(prefix, depth, before, after)
        case _:
            pass


def _difference(old: Place, new: Place) -> tuple[list[str], bool]:
    """What is said of the type at one place, and whether older values do not fit. What is inside a
    struct is its own fields' to say.
    """
    words: list[str] = []
    is_breaking = False
    if old.is_nullable != new.is_nullable:
        is_breaking = old.is_nullable
        words.append("now required: older nulls do not fit" if is_breaking else "may now be null")
    if not _same_kind(old.type, new.type):
        is_wider = common_type(old.type, new.type) == new.type
        words.append("widened" if is_wider else "another type: older values do not fit")
        is_breaking |= not is_wider
    return words, is_breaking


def _same_kind(old: AvroType, new: AvroType) -> bool:
    match old, new:
        case Struct(), Struct():
            return True
        case (ListOf(before), ListOf(after)) | (MapOf(before), MapOf(after)):
            return before.is_nullable == after.is_nullable and _same_kind(before.type, after.type)
        case _:
            return old == new


def _children(kind: AvroType) -> tuple[Field, ...]:
    match kind:
        case Struct():
            return kind.fields
        case ListOf(place) | MapOf(place):
            return _children(place.type)
        case _:
            return ()


def _short(place: Place) -> str:
    """A struct's fields have lines of their own."""
    mark = "?" if place.is_nullable else ""
    match place.type:
        case Struct():
            return "struct" + mark
        case ListOf(element):
            return f"list<{_short(element)}>{mark}"
        case MapOf(value):
            return f"map<string,{_short(value)}>{mark}"
        case kind:
            return f"{kind}{mark}"


def _flat(older: Mapping[str, Any], newer: Mapping[str, Any]) -> list[SchemaNode]:
    return [
        SchemaNode(
            path=one.name,
            name=one.name,
            depth=0,
            before=one.before,
            after=one.after,
            change="added"
            if one.kind == "added"
            else "removed"
            if one.kind == "removed"
            else "changed",
        )
        for one in field_changes(older, newer)
    ]
