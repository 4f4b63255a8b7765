"""SQL over tables as the source of a write: whether somebody may read all that a statement reads.

It is asked when the write is requested, by a schedule at each turn, and once more when its worker
begins. Whoever sees a table and may not read its rows is told so; of a table that he does not see
nothing is said. A masked column is not written anywhere, whatever the statement does with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.errors import InvalidRequest
from controlplane.mirror.models import SchemaRecord
from controlplane.operations.connection_sources import POSTGRESQL
from controlplane.operations.models import Operation, Schedule
from controlplane.tables.access import Caller, Permission, visible_tables
from controlplane.tables.masks import masks_part
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access, whole_tables
from workers.errors import InvalidInput

SQL = "sql"
_GIVEN = {"kind", "statement"}


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A statement that may run, and what it reads."""

    statement: str
    tables: Mapping[str, Table]
    """By their names in the statement."""
    columns: Mapping[str, Mapping[str, str]]
    """Of each table those that the mirror knows, with their types; a driver sees no others."""

    @property
    def slugs(self) -> list[str]:
        return sorted(table.slug for table in self.tables.values())

    def job_source(self) -> dict[str, Any]:
        """As a driver takes it."""
        named = {
            name: {"location": table.location, "columns": dict(self.columns[name])}
            for name, table in sorted(self.tables.items())
        }
        return {"kind": SQL, "statement": self.statement, "tables": json.dumps(named)}


def checked_query(by: User, source: Mapping[str, Any]) -> QuerySource:
    """What `by` may have read for him now. Reads the database alone.

    Raises InvalidRequest for what is no SELECT, or reads what there is not; PermissionDenied where
    `by` may not read the rows of a table that he sees, or a column is masked for him.
    """
    from workers.sql.checking import MaskedColumnUsed, ReadableTable, check_select

    if unknown := sorted(set(source) - _GIVEN):
        raise InvalidRequest("source has unknown keys", keys=unknown, known=sorted(_GIVEN))
    statement = source.get("statement")
    if not isinstance(statement, str) or not statement.strip():
        raise InvalidRequest("a source of kind sql requires a statement: one SELECT")
    tables: dict[str, Table] = {}
    columns: dict[str, Mapping[str, str]] = {}

    def readable(names: frozenset[str]) -> Mapping[str, ReadableTable]:
        seen = visible_tables(by, Permission.VIEW).filter(slug__in=sorted(names))
        known: dict[str, ReadableTable] = {}
        for table in seen:
            access = row_access(by, table)
            access.check()
            tables[table.slug], columns[table.slug] = table, _columns(table)
            is_masked = partial(masks_part, masked=access.masked)
            known[table.slug] = ReadableTable(columns[table.slug], is_masked)
        return known

    try:
        checked = check_select(statement, readable)
    except MaskedColumnUsed as error:
        raise PermissionDenied(str(error)) from error
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    if masked_outputs := [column.name for column in checked.columns if column.is_masked]:
        raise PermissionDenied(
            f"masked columns cannot be written: {', '.join(masked_outputs)[:300]}"
        )
    return QuerySource(statement, tables, columns)


def may_still_read(by: User, source: Mapping[str, Any]) -> bool:
    """Whether `by` may read what the source of a job reads, from where the job reads it."""
    given = {name: source[name] for name in _GIVEN if name in source}
    try:
        query = checked_query(by, given)
    except (InvalidRequest, PermissionDenied):
        return False
    named = json.loads(str(source.get("tables", "{}")))
    return {name: table.location for name, table in query.tables.items()} == {
        name: table["location"] for name, table in named.items() if name in query.tables
    } and set(named) == set(query.tables)


def shown_whole(user: Caller | None, operations: Iterable[Operation]) -> frozenset[UUID]:
    """Return the operations whose message and log `user` is shown whole: those of which they see
    every value of every table that is read or written. None is the owner of the node's shell. At
    most three queries besides the roles, however many operations there are.
    """
    listed = list(operations)
    if user is None:
        return frozenset(one.pk for one in listed)
    read = {one.pk: _read_locations(one) for one in listed}
    sources = Table.objects.filter(location__in=frozenset().union(*read.values()))
    by_location = {table.location: table for table in sources} if any(read.values()) else {}
    whole = whole_tables(user, [*(one.table for one in listed), *by_location.values()])
    whole_locations = {at for at, table in by_location.items() if table.pk in whole}
    return frozenset(
        one.pk for one in listed if one.table_id in whole and read[one.pk] <= whole_locations
    )


def schedules_shown_whole(user: Caller, schedules: Iterable[Schedule]) -> frozenset[UUID]:
    """As `shown_whole`, for what schedules say of their runs."""
    listed = list(schedules)
    whole = whole_tables(user, [one.table for one in listed])
    return frozenset(
        one.pk
        for one in listed
        if one.table_id in whole and _may_read_source(user, one.parameters.get("source"))
    )


def without_statement(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source as all users who see the table may read it: which tables a statement reads,
    and what the query of a database asks for, is not theirs to know. The audit has it.
    """
    if source.get("kind") == SQL:
        return {"kind": SQL}
    hidden = {"query"} if source.get("kind") == POSTGRESQL else set()
    return {key: part for key, part in source.items() if key not in hidden}


def _read_locations(operation: Operation) -> frozenset[str]:
    source = operation.parameters.get("job", {}).get("source") or {}
    named = json.loads(str(source.get("tables", "{}"))) if source.get("kind") == SQL else {}
    return frozenset(table["location"] for table in named.values())


def _may_read_source(user: Caller, source: object) -> bool:
    if not isinstance(source, Mapping) or source.get("kind") != SQL:
        return True
    given = {name: source[name] for name in _GIVEN if name in source}
    try:
        tables = checked_query(user, given).tables.values() if isinstance(user, User) else None
    except (InvalidRequest, PermissionDenied):
        return False
    return tables is not None and {one.pk for one in tables} <= whole_tables(user, tables)


def _columns(table: Table) -> dict[str, str]:
    """By the mirror's newest schema. Raises InvalidRequest for a table that it has not read."""
    from workers.schema.table_schema import TableSchema
    from workers.sql.type_names import name_of_type

    newest = SchemaRecord.objects.filter(table=table).order_by("-completed_at").first()
    if newest is None:
        raise InvalidRequest(
            "the columns of this table are not known yet: retry after its first sync",
            table=table.slug,
        )
    schema = TableSchema.from_avro(newest.avro)
    return {field.name: name_of_type(field.type) for field in schema.declared}
