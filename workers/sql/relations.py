"""The tables that a statement names: which they are, what it reads of them, and their names in the
engine that computes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, open_table
from workers.sql.exact_literals import with_exact_literals
from workers.sql.statements import Alter, Change, Select, parts_of, table_name

Rows: TypeAlias = pa.Table | pa.RecordBatch
Tables: TypeAlias = Mapping[str, LakehouseTable | str | Path | Rows]
"""Opened tables, their locations, or rows to read."""


def opened(name: str, tables: Tables) -> LakehouseTable:
    """The table that the caller gave under this name. Raises InvalidInput for a name that nobody
    gave, and as `open_table`.
    """
    if name not in tables:
        raise InvalidInput("no table of this name was given", table=name, known=sorted(tables))
    match tables[name]:
        case LakehouseTable() as table:
            return table
        case str() | Path() as location:
            return open_table(location)
        case other:
            raise InvalidInput(
                "a lakehouse table is needed here: give it opened, or its location",
                table=name,
                given=type(other).__name__,
            )


def rows_given(name: str, tables: Tables) -> pa.Table | None:
    """Arrow rows under this name; None for a table, whether or not it is there."""
    match tables.get(name):
        case pa.Table() as rows:
            return rows
        case pa.RecordBatch() as batch:
            return pa.Table.from_batches([batch])
        case _:
            return None


def tables_read(query: exp.Expr) -> frozenset[str]:
    """Names of the tables that a query reads, without those that it defines by WITH."""
    return frozenset(table_name(one) for one in _tables(query))


def tables_named(change: Change | Alter | Select) -> frozenset[str]:
    """Names of the tables that the statement reads, and of the one that it changes."""
    if isinstance(change, Select):
        return tables_read(change.query)
    if isinstance(change, Alter):
        return frozenset({change.target.name})
    return frozenset({change.target.name}).union(*map(tables_read, parts_of(change)))


def times_read(query: exp.Expr, name: str) -> int:
    """How often the query names the table."""
    return sum(table_name(one) == name for one in _tables(query))


def columns_read(
    queries: Iterable[exp.Expr], name: str, known: Collection[str]
) -> tuple[str, ...] | None:
    """Those of the table's `known` columns that the queries may look at; None for all."""
    names: set[str] = set()
    for query in queries:
        if not times_read(query, name):
            continue
        if query.find(exp.Star) is not None:
            return None
        names |= {one.name.lower() for one in query.find_all(exp.Column)}
    return tuple(column for column in known if column.lower() in names)


def bound(
    query: exp.Expr,
    relations: Mapping[str, str],
    dialect: str,
    schema_of: Callable[[str], pa.Schema | None] | None = None,
) -> str:
    """Return the query's text for an engine in which tables go by their `relations`.

    With `schema_of`, which returns the columns of a table or None, numbers get the types of the
    columns that they are compared with.
    """
    query = query.copy() if schema_of is None else with_exact_literals(query, schema_of)
    for table in _tables(query):
        name = table_name(table)
        if name not in relations:
            raise InvalidInput(
                "no table of this name was given", table=name, known=sorted(relations)
            )
        if not table.alias:
            own = exp.to_identifier(name.rpartition(".")[2], quoted=True)
            table.set("alias", exp.TableAlias(this=own))
        table.set("this", exp.to_identifier(relations[name], quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    for column in query.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    return query.sql(dialect=dialect)


def _tables(query: exp.Expr) -> list[exp.Table]:
    defined = {one.alias for one in query.find_all(exp.CTE)}
    return [one for one in query.find_all(exp.Table) if table_name(one) not in defined]
