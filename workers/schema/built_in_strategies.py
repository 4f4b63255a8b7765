"""The built-in strategies for concurrent schema changes.

`simple`: RFC-82's eight scenarios, decided by equality alone.

`evolvability`: a three-way merge, RFC-82's future work (requirements 2.4). Two writers whose schema
changes are compatible both succeed, and the later commit has the merged schema. No data file is
rewritten: files of both are readable under the merged schema, because types only widen, new columns
are optional, and no column with a value is lost.
"""

from __future__ import annotations

from typing import Any

from workers.files.avro_schema import Struct
from workers.schema.equality import equal
from workers.schema.table_schema import TableSchema
from workers.schema.three_way import Clash, Drops, merge_three_ways
from workers.schema.to_avro import field_to_avro
from workers.schema.verdict import SchemaConflict, SchemaQuestion, SchemaVerdict
from workers.schema.wider_types import is_evolution

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


def evolvability(question: SchemaQuestion) -> SchemaVerdict | SchemaConflict:
    """Accept the writer's or the merged schema, or reject with every path that cannot be merged."""
    start, now, writer = question.at_start, question.at_validation, question.writer
    if equal(writer, now):
        return question.accept(writer)
    if start is not None and equal(start, now):
        return question.accept(writer)  # No other change, so nothing is merged.
    tree, clashes = _merge(question)
    if clashes:
        return question.reject("two writers' changes of the schema cannot be merged", clashes)
    return question.accept(_to_schema(tree, now, writer))


def find_clashes(question: SchemaQuestion) -> list[Clash]:
    """Find the clashes of a merge; empty if `evolvability` would succeed."""
    return _merge(question)[1]


def _merge(question: SchemaQuestion) -> tuple[Struct, list[Clash]]:
    start, now, writer = question.at_start, question.at_validation, question.writer
    written = question.written
    drops = Drops(
        by_ours=frozenset(writer.dropped),
        by_theirs=frozenset(now.dropped),
        written_by_ours=written or frozenset(),
        ours_has_files=written is not None,
    )
    return merge_three_ways(
        start.tree if start else None,
        writer.tree,
        now.tree,
        pinned=question.pinned,
        ordering=question.ordering,
        drops=drops,
    )


def _to_schema(tree: Struct, now: TableSchema, writer: TableSchema) -> TableSchema:
    """Return `tree` in the table's own spelling, with the docs and properties of unchanged
    columns.
    """
    if tree == now.tree:
        return now
    avro = now.to_avro()
    ours = {column["name"]: column for column in writer.to_avro()["fields"]}
    theirs = {column["name"]: column for column in avro["fields"]}
    # A type that is defined in one column and referred to in another stays only as a whole.
    is_linked = _refers_to_names(avro["fields"])
    fields: list[dict[str, Any]] = []
    for field in tree.fields:
        old = theirs.get(field.name)
        if old is not None and field == now.tree.field(field.name) and not is_linked:
            fields.append(old)
            continue
        source = old or ours[field.name]
        spelled = field_to_avro(field, parent=now.record_name)
        spelling = ("name", "type", "default", "order")
        fields.append({**{k: v for k, v in source.items() if k not in spelling}, **spelled})
    merged = TableSchema.from_avro({**avro, "fields": fields})
    assert merged.tree == tree, (merged.tree, tree)
    return merged


def _refers_to_names(fields: list[dict[str, Any]]) -> bool:
    return any(_is_reference(field["type"]) for field in fields)


def _is_reference(avro: Any) -> bool:
    match avro:
        case str():
            return avro not in _PRIMITIVES
        case list():
            return any(map(_is_reference, avro))
        case {"type": "record" | "error", "fields": fields}:
            return _refers_to_names(fields)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return _is_reference(inner)
        case {"type": "fixed" | "enum"}:
            return False
        case {"type": inner}:
            return _is_reference(inner)
        case _:
            return False


def simple(question: SchemaQuestion) -> SchemaVerdict | SchemaConflict:
    """Decide rows 3 to 7 of requirements 2.1, in their order."""
    start, now, writer = question.at_start, question.at_validation, question.writer
    if equal(writer, now):
        return question.accept(writer)
    if start is None:
        return _reject(question, "another writer gave the new table a different schema first")
    if equal(start, now):
        return question.accept(writer)
    if not equal(writer, start):
        return _reject(question, "another writer changed the table's schema in a different way")
    dropped = _find_dropped(start, now)
    if not is_evolution(_without(start.tree, dropped), now.tree):
        return _reject(question, "the table lost or changed what this writer still writes")
    return question.accept(now, warning=_unread(question, dropped))


def _reject(question: SchemaQuestion, reason: str) -> SchemaConflict:
    return question.reject(reason, find_clashes(question))


def _find_dropped(start: TableSchema, now: TableSchema) -> set[str]:
    """Find the columns with a recorded drop. Other missing columns were renamed or undone by a
    restore, and the writer's column must stay (E-20).
    """
    names = set(now.field_names)
    return {name for name in start.field_names if name not in names and name.lower() in now.dropped}


def _without(tree: Struct, names: set[str]) -> Struct:
    return Struct(tuple(field for field in tree.fields if field.name not in names), tree.is_error)


def _unread(question: SchemaQuestion, dropped: set[str]) -> str | None:
    """Return the warning of E-21; None without lost values."""
    if lost := sorted(dropped & (question.written or frozenset())):
        names = ", ".join(lost)
        return f"the table dropped {names} meanwhile; this write's values for it are not read"
    return None
