"""Conditions of a query by which rows of a table may be left unread.

A hint holds for every row that the query can use, so slices and row groups that it refutes are not
read. The engine that computes the query still filters each row by its own rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput
from workers.read.predicate import Predicate, predicate_of
from workers.read.pruning import Condition
from workers.sql.relations import times_read
from workers.sql.statements import condition_text, table_name

_KEEPING: Final = frozenset({"", "LEFT"})
"""Joins after which each row still holds the row of the first table that it came from."""


def find_hint(queries: Sequence[exp.Expr], name: str, schema: pa.Schema) -> str | None:
    """Return a condition, as `predicate_of` takes it, that rows of the table must meet to matter.

    None if there is none, or if the queries name the table more than once.
    """
    if sum(times_read(query, name) for query in queries) != 1:
        return None
    tables = (table for query in queries for table in query.find_all(exp.Table))
    table = next(table for table in tables if table_name(table) == name)
    select = table.find_ancestor(exp.Select)
    if select is None or not _is_first(table, select):
        return None
    where = select.args.get("where")
    if where is None:
        return None
    texts = list(_texts(where.this, table, select, schema))
    return " AND ".join(f"({text})" for text in texts) or None


def find_hint_predicate(
    queries: Sequence[exp.Expr], name: str, schema: pa.Schema
) -> Predicate | None:
    """Return the hint of `find_hint` as a scan takes it, or None."""
    hint = find_hint(queries, name, schema)
    return None if hint is None else predicate_of(hint, schema).as_hint()


def find_conditions(where: exp.Expr | None, schema: pa.Schema) -> tuple[Condition, ...]:
    """Return what the condition of a statement requires of single columns; nothing if it holds a
    query, or something that a table's own predicates cannot express.
    """
    if where is None or where.find(exp.Query) is not None:
        return ()
    try:
        return predicate_of(condition_text(where), schema).conditions
    except InvalidInput:
        return ()


def _is_first(table: exp.Table, select: exp.Select) -> bool:
    clause = select.args.get("from_")
    joins = select.args.get("joins") or []
    is_whole = not any(table.args.get(part) for part in ("sample", "pivots", "joins", "laterals"))
    return (
        clause is not None
        and clause.this is table
        and is_whole
        and not select.args.get("laterals")
        and all(str(join.args.get("side") or "").upper() in _KEEPING for join in joins)
    )


def _texts(
    where: exp.Expr, table: exp.Table, select: exp.Select, schema: pa.Schema
) -> Iterator[str]:
    parts = where.flatten() if isinstance(where, exp.And) else [where]
    for part in parts:
        text = _text(part, table, bool(select.args.get("joins")), schema)
        if text is not None:
            yield text


def _text(part: exp.Expr, table: exp.Table, is_joined: bool, schema: pa.Schema) -> str | None:
    if part.find(exp.Query) is not None:
        return None
    spellings = {name.lower(): name for name in schema.names}
    if len(spellings) < len(schema.names):
        return None
    part = part.copy()
    columns = list(part.find_all(exp.Column))
    for column in columns:
        spelling = spellings.get(column.name.lower())
        if spelling is None or not _is_column(column, table, is_joined):
            return None
        if not _fits(schema.field(spelling).type, part):
            return None
        column.set("this", exp.to_identifier(spelling, quoted=True))
    text = condition_text(part)
    try:
        return text if columns and predicate_of(text, schema).conditions else None
    except InvalidInput:
        return None


def _is_column(column: exp.Column, table: exp.Table, is_joined: bool) -> bool:
    if column.args.get("db") is not None or column.args.get("catalog") is not None:
        return False
    if not column.table:
        return not is_joined
    return column.table.lower() == table.alias_or_name.lower()


def _fits(kind: Any, part: exp.Expr) -> bool:
    """Check that the literals are of the column's type, so that no engine converts a column."""
    types = pa.types
    literals = list(part.find_all(exp.Literal))
    if types.is_string(kind) or types.is_date32(kind):
        return all(literal.is_string for literal in literals)
    is_number = types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind)
    if is_number:
        return not any(literal.is_string for literal in literals)
    return types.is_boolean(kind) and not literals
