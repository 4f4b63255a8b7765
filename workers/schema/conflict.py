"""The schema of a commit after the table's changed concurrently (RFC-82): a pure function. And the
message of a conflict: the writers, the changes, the three schemas, the next step.

Cases that need no strategy are decided here, by the rows of requirements 2.1 in their order: table
services, writers without a schema, new tables, no commit in between. The rest is a question for the
strategy that the writer chose. Cases that no strategy may decide are rejected before it is called.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workers.schema.equality import equal
from workers.schema.strategies import SIMPLE, run_strategy
from workers.schema.table_schema import TableSchema
from workers.schema.three_way import Clash
from workers.schema.verdict import (
    SchemaChange,
    SchemaConflict,
    SchemaQuestion,
    SchemaVerdict,
    changes_since,
)
from workers.schema.wider_types import preserves_order

_CHANGES_SHOWN_MAX = 12
_FIELDS_SHOWN_MAX = 12


def resolve(
    at_start: TableSchema | None,
    at_validation: TableSchema | None,
    writer: TableSchema | None,
    *,
    same_instant: bool,
    is_table_service: bool = False,
    enabled: bool = True,
    deletes_only: bool = False,
    strategy: str = SIMPLE,
    pinned: Collection[str] = (),
    ordering: Collection[str] = (),
    written: Collection[str] | None = None,
) -> SchemaVerdict | SchemaConflict:
    """Return the verdict on one commit; requires the table lock.

    `same_instant`: the newest commit with a schema is still the one seen at the start.
    `deletes_only` is the reason for a writer without a schema; any other one gets a warning.
    `pinned`, `ordering` and `written` are those of `SchemaQuestion`. Raises InvalidInput for an
    unknown strategy.
    """
    if not enabled:
        return _resolve_unchecked(at_start, at_validation, writer, same_instant)
    if is_table_service:
        # Rewritten files may be shaped as of the plan; the table's schema must not go back to it.
        return SchemaVerdict("0b", at_validation, strategy=strategy)
    if writer is None:
        warning = None if deletes_only else "writer has no schema; the table's was kept"
        row = "0d" if deletes_only else "0c"
        return SchemaVerdict(row, at_validation, warning, strategy)
    if at_validation is None:
        missing = "the table's schema is gone since the start: rolled back or restored"
        return SchemaVerdict("1", writer, missing if at_start is not None else None, strategy, 1)
    if same_instant:
        return _resolve_alone(at_start, at_validation, writer, strategy)
    question = SchemaQuestion(
        at_start,
        at_validation,
        writer,
        frozenset(pinned),
        frozenset(written) if written is not None else None,
        strategy,
        frozenset(ordering),
    )
    if never := _find_fixed_clashes(question):
        return question.reject("no strategy may settle this", never)
    return run_strategy(strategy, question)


def _resolve_alone(
    at_start: TableSchema | None, now: TableSchema, writer: TableSchema, strategy: str
) -> SchemaVerdict:
    if at_start is not None and equal(at_start, writer):
        return SchemaVerdict("2", writer, strategy=strategy, scenario=4)
    changes = changes_since(at_start, now, writer)
    return SchemaVerdict("2", writer, strategy=strategy, scenario=5, changes=changes)


def _resolve_unchecked(
    at_start: TableSchema | None,
    at_validation: TableSchema | None,
    writer: TableSchema | None,
    same_instant: bool,
) -> SchemaVerdict:
    checked = resolve(at_start, at_validation, writer, same_instant=same_instant)
    if isinstance(checked, SchemaVerdict):
        return SchemaVerdict("0a", writer)
    changed = "; ".join(map(str, checked.changes))
    return SchemaVerdict(
        "0a", writer, f"schema conflict resolution is off: {checked.reason}: {changed}"
    )


def _find_fixed_clashes(question: SchemaQuestion) -> list[Clash]:
    """Find the clashes of E-25 and E-31, and dropped names that are used again while other writers
    may still have written them.
    """
    now, writer = question.at_validation, question.writer
    clashes = []
    theirs = {name.lower(): name for name in now.field_names}
    start_names = set(question.at_start.field_names) if question.at_start else set()
    for name in writer.field_names:
        other = theirs.get(name.lower(), name)
        if other != name:
            clashes.append(Clash(name, f"differs only by case from {other}"))
        if name not in start_names and name.lower() in now.dropped:
            clashes.append(Clash(name, "was dropped, and files may still hold its old values"))
    for name in sorted(question.pinned | question.ordering):
        ours, their = writer.tree.field(name), now.tree.field(name)
        places = (ours.place if ours else None, their.place if their else None)
        is_alike = preserves_order(*places) and name not in question.pinned
        if places[0] != places[1] and not is_alike:
            reason = f"is a key, partition or ordering column: {places[0]} here, {places[1]} there"
            clashes.append(Clash(name, reason))
    return clashes


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
