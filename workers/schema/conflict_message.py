"""The message of a schema conflict: the writers, the changes, the three schemas, the next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaChange, SchemaConflict

_CHANGES_SHOWN_MAX = 12
_FIELDS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Party:
    """A transaction of the conflict."""

    instant: str
    writer: str | None

    def __str__(self) -> str:
        return f"{self.instant} of {self.writer}" if self.writer else self.instant


def format_conflict(conflict: SchemaConflict, *, ours: Party, rival: Party) -> str:
    """Return sentences for the user whose write was lost; bounded, however wide the schemas are."""
    theirs = [change for change in conflict.changes if change.by != "writer"]
    mine = [change for change in conflict.changes if change.by != "rival"]
    rule = f"RFC-82 scenario {conflict.scenario}, strategy {conflict.strategy}"
    parts = [
        f"schema conflict ({rule}): {conflict.reason}",
        f"since this write began, {rival} has {_format_changes(theirs)}",
        f"this write, {ours}, has {_format_changes(mine)}",
        f"table at start: {_format_columns(conflict.at_start)}",
        f"table now: {_format_columns(conflict.at_validation)}",
        f"this writer: {_format_columns(conflict.writer)}",
    ]
    if conflict.clashes:
        parts.append(f"cannot be merged: {'; '.join(_shorten(conflict.clashes))}")
    return ". ".join([*parts, f"what to do: {format_advice(conflict)}"])


def format_advice(conflict: SchemaConflict) -> str:
    """Return what the user can do next. Nothing of the write is left, so it may simply run
    again.
    """
    again = (
        "write again on the table's schema of now "
        "(hoodie.write.num.retries.on.conflict.failures=1 does so by itself)"
    )
    if not conflict.clashes:
        return (
            f"{again}, or set hoodie.write.concurrency.schema.conflict.resolution.strategy="
            "evolvability, under which these changes are merged"
        )
    paths = ", ".join(sorted({clash.path for clash in conflict.clashes})[:_FIELDS_SHOWN_MAX])
    agreed = f"agree with the other writer on {paths} (one type, another name, or without it)"
    return f"{agreed}, then {again}"


def _format_changes(changes: Sequence[SchemaChange]) -> str:
    return "; ".join(_shorten(changes)) if changes else "no change"


def _shorten(items: Sequence[object]) -> list[str]:
    texts = [str(item) for item in items[:_CHANGES_SHOWN_MAX]]
    hidden = len(items) - len(texts)
    return [*texts, f"and {hidden} more"] if hidden else texts


def _format_columns(schema: TableSchema | None) -> str:
    if schema is None:
        return "none"
    fields = schema.tree.fields
    texts = [f"{field.name} {field.place}" for field in fields[:_FIELDS_SHOWN_MAX]]
    hidden = len(fields) - len(texts)
    return f"({', '.join(texts)}{f', and {hidden} more' if hidden else ''})"
