"""The schema of a commit when the table's changed meanwhile: RFC-82's table as a pure function.

Three schemas decide: the table's when the transaction started, the table's now (read under the
table lock), and the writer's. The rows carry the numbers of requirements 2.1 and are tried in that
order.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.schema.equality import FieldDifference, differences, equal
from workers.schema.table_schema import TableSchema
from workers.schema.widening import is_evolution


@dataclass(frozen=True, slots=True)
class SchemaVerdict:
    """The commit may go on, with this schema in its metadata."""

    case: str
    """The row of the decision table: 0a to 6."""
    schema: TableSchema | None
    """None only where neither the table nor the writer has one."""
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """The commit must not happen. Write again on the table's new schema, or evolve it first."""

    case: str
    at_start: TableSchema | None
    at_validation: TableSchema | None
    writer: TableSchema | None
    differences: tuple[FieldDifference, ...]
    """From the table's schema now to the writer's."""
    message: str


def resolve(
    at_start: TableSchema | None,
    at_validation: TableSchema | None,
    writer: TableSchema | None,
    *,
    same_instant: bool,
    is_table_service: bool = False,
    enabled: bool = True,
    deletes_only: bool = False,
) -> SchemaVerdict | SchemaConflict:
    """The verdict on one commit; call it under the table lock.

    `same_instant`: the newest schema-bearing commit is still the one seen at start. `deletes_only`
    says why a writer has no schema; without it a missing one earns a warning.
    """
    if not enabled:
        return _unchecked(at_start, at_validation, writer, same_instant)
    if is_table_service:
        # Rewritten files may be shaped as of the plan; the table's schema must not go back to it.
        return SchemaVerdict("0b", at_validation)
    if writer is None:
        warning = None if deletes_only else "writer has no schema; the table's was kept"
        return SchemaVerdict("0d" if deletes_only else "0c", at_validation, warning)
    if at_validation is None:
        gone = "the table's schema is gone since the start: rolled back or restored"
        return SchemaVerdict("1", writer, gone if at_start is not None else None)
    if same_instant:
        return SchemaVerdict("2", writer)
    if equal(writer, at_validation):
        return SchemaVerdict("3", writer)
    if at_start is None:
        return _conflict("4", at_start, at_validation, writer)
    if equal(at_start, at_validation):
        return SchemaVerdict("5", writer)
    if equal(writer, at_start) and is_evolution(at_start.tree, at_validation.tree):
        return SchemaVerdict("6", at_validation)
    return _conflict("6" if equal(writer, at_start) else "7", at_start, at_validation, writer)


def _unchecked(
    at_start: TableSchema | None,
    at_validation: TableSchema | None,
    writer: TableSchema | None,
    same_instant: bool,
) -> SchemaVerdict:
    checked = resolve(at_start, at_validation, writer, same_instant=same_instant)
    if isinstance(checked, SchemaVerdict):
        return SchemaVerdict("0a", writer)
    return SchemaVerdict("0a", writer, f"schema conflict resolution is off: {checked.message}")


def _conflict(
    case: str, at_start: TableSchema | None, at_validation: TableSchema, writer: TableSchema
) -> SchemaConflict:
    found = tuple(differences(at_validation, writer))
    if case == "4":
        reason = "another writer gave the new table a different schema first"
    elif case == "6":
        reason = "the table's schema lost or narrowed what this writer still writes"
    else:
        reason = "another writer changed the table's schema in a different way"
    message = f"{reason}; from the table's schema to this writer's: {'; '.join(map(str, found))}"
    return SchemaConflict(case, at_start, at_validation, writer, found, message)
