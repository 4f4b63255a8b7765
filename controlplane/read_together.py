"""Read several querysets by one statement: one round trip, and one moment for all of them.

A page shows ten small lists. Read one after the other, each waits for the database, and a commit
between two of them shows in one list and not in the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection, models
from django.db.models import QuerySet
from django.db.models.sql.compiler import SQLCompiler

_FROM_JSON: Final[tuple[tuple[type[models.Field[Any, Any]], Callable[[Any], Any]], ...]] = (
    (models.DateTimeField, datetime.fromisoformat),
    (models.UUIDField, UUID),
    (models.JSONField, json.dumps),
)
"""What PostgreSQL's driver gives for a column, made of what its JSON has. SQLite's JSON has what
its driver gives.
"""
_NOT_READ: Final = (
    models.BinaryField,
    models.DateField,
    models.DecimalField,
    models.DurationField,
    models.TimeField,
)
"""DateTimeField, which is a DateField, is read."""


def read_together(*querysets: QuerySet[Any, Any]) -> None:
    """Fill each queryset with its rows, so that iterating over it costs no query. Those that were
    read before stay as they are. One query, or none.
    """
    parts: list[tuple[QuerySet[Any, Any], SQLCompiler]] = []
    statements: list[str] = []
    parameters: list[Any] = []
    for queryset in querysets:
        if queryset._result_cache is not None:
            continue
        compiler = queryset.query.get_compiler(connection=connection)
        try:
            sql, own = compiler.as_sql(with_col_aliases=True)
        except EmptyResultSet:
            queryset._result_cache = []
            continue
        parts.append((queryset, compiler))
        statements.append(_as_json(sql, compiler))
        parameters += own
    if not parts:
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(statements)}", parameters)
        [lists] = cursor.fetchall()
    for (queryset, compiler), text in zip(parts, lists, strict=True):
        _fill(queryset, compiler, _rows(text, compiler))


def _as_json(sql: str, compiler: SQLCompiler) -> str:
    if connection.vendor == "postgresql":
        return f"(SELECT json_agg(listed)::text FROM ({sql}) listed)"  # noqa: S608 # Django's
    names = ", ".join(connection.ops.quote_name(str(alias)) for _, _, alias in compiler.select)
    return f"(SELECT json_group_array(json_array({names})) FROM ({sql}))"  # noqa: S608 # Django's


def _rows(text: str | None, compiler: SQLCompiler) -> list[tuple[Any, ...]]:
    """Decode one list; PostgreSQL has None for an empty one."""
    rows = json.loads(text) if text else []
    if connection.vendor != "postgresql":
        return [tuple(row) for row in rows]
    reads = [_reader(column.output_field) for column, _, _ in compiler.select]
    return [
        tuple(
            read(value) if read is not None and value is not None else value
            for read, value in zip(reads, row.values(), strict=True)
        )
        for row in rows
    ]


def _reader(field: models.Field[Any, Any]) -> Callable[[Any], Any] | None:
    for of_type, read in _FROM_JSON:
        if isinstance(field, of_type):
            return read
    assert not isinstance(field, _NOT_READ), f"no reader for {field}"
    return None


def _fill(queryset: QuerySet[Any, Any], compiler: Any, rows: list[tuple[Any, ...]]) -> None:
    """Let Django make of these rows what it makes of those that it fetches."""
    compiler.execute_sql = lambda *_args, **_options: [rows]
    query: Any = queryset.query
    query.get_compiler = lambda *_args, **_options: compiler
    try:
        queryset._fetch_all()
    finally:
        del query.get_compiler
