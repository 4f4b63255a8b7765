"""Strategy `simple`: RFC-82's eight scenarios, decided by equality alone."""

from __future__ import annotations

from workers.files.avro_schema import Struct
from workers.schema.equality import equal
from workers.schema.evolvability import find_clashes
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict, SchemaQuestion, SchemaVerdict
from workers.schema.wider_types import is_evolution


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
