"""`check_select`: from a text that nobody has looked at to a tree that may run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from workers.errors import InvalidInput
from workers.sql.checking.checked import CheckedSelect, CheckedTable, Readable, ReadableTable
from workers.sql.checking.limits import check_limits
from workers.sql.checking.lineage import Lineage
from workers.sql.checking.names import NamedTables, name_tables
from workers.sql.checking.parts import check_parts
from workers.sql.checking.refusals import StatementRefused
from workers.sql.checking.spelling import refusing
from workers.sql.checking.times import take_times
from workers.sql.create import column_type
from workers.sql.exact_literals import with_exact_literals
from workers.sql.hints import find_hint
from workers.sql.statements import DIALECT, Select, statement_of

_NAME_CHARS_MAX = 60


def check_select(
    statement: str, readable: Readable, *, allows_times: bool = False
) -> CheckedSelect:
    """The statement, one SELECT in Spark's spelling, if this person may run it.

    `readable` is asked once, with the names of all tables; what it leaves out is refused as if
    there were no such table. `allows_times`: tables may be read TIMESTAMP AS OF. Raises
    StatementRefused, UnreadableTable, MaskedColumnUsed, and whatever `readable` raises.
    """
    check_limits(statement)
    try:
        return _checked(_query_of(statement, allows_times=allows_times), readable)
    except RecursionError as error:
        raise StatementRefused("the statement is nested too deeply") from error


def _query_of(statement: str, *, allows_times: bool) -> exp.Query:
    try:
        with refusing("the statement cannot be read"):
            parsed = statement_of(statement)
    except InvalidInput as error:
        raise StatementRefused(error.message, **error.values) from error
    if not isinstance(parsed, Select):
        raise StatementRefused("only a SELECT is taken here", statement=type(parsed).__name__)
    if allows_times:
        take_times(parsed.query)
    check_parts(parsed.query)
    return parsed.query


def _checked(query: exp.Query, readable: Readable) -> CheckedSelect:
    spellings = _spellings(query)
    _ask_nothing_of_exists(query)
    named = name_tables(query, readable)
    _name_outputs(query, spellings)
    for table in named.readable.values():
        spellings = {name.lower(): name for name in table.columns} | spellings
    query = _qualified(query, named)
    check_parts(query, owns_names=True)
    names = {relation: name for name, relation in named.relations.items()}
    of_relation = {named.relations[name]: table for name, table in named.readable.items()}
    lineage = Lineage(query, of_relation, names)
    read = lineage.columns_read()
    lineage.check_masks()
    tables = {
        name: CheckedTable(
            relation,
            tuple(_read_of(named.readable[name].columns, read[relation])),
            named.times_read[name],
            *named.sources[name],
            find_hint([query], relation, _select_unmasked(named.readable[name])),
        )
        for name, relation in named.relations.items()
    }
    columns = tuple(
        replace(column, name=spellings.get(column.name.lower(), column.name))
        for column in lineage.outputs()
    )
    exact = with_exact_literals(query, {r: _schema(one) for r, one in of_relation.items()}.get)
    assert isinstance(exact, exp.Query), exact
    return CheckedSelect(exact, tables, columns)


def _qualified(query: exp.Query, named: NamedTables) -> exp.Query:
    schema: dict[str, object] = {
        relation: dict(named.readable[name].columns) for name, relation in named.relations.items()
    }
    with refusing("the names cannot be resolved"):
        qualified = qualify(query, dialect=DIALECT, schema=schema)
    assert isinstance(qualified, exp.Query), qualified
    return qualified


def _schema(table: ReadableTable) -> pa.Schema:
    return pa.schema([(name, _type(text, name)) for name, text in table.columns.items()])


def _type(text: str, column: str) -> pa.DataType:
    """Return the type of this name, or null's type if columns of it are compared with no number."""
    try:
        return column_type(exp.DataType.build(text, dialect=DIALECT), column)
    except (InvalidInput, SqlglotError):
        return pa.null()


def _select_unmasked(table: ReadableTable) -> pa.Schema:
    """The columns that are not masked, of those that have a type of ours."""
    return pa.schema(
        [
            field
            for field in _schema(table)
            if not table.is_masked(field.name) and not pa.types.is_null(field.type)
        ]
    )


def _read_of(columns: Mapping[str, str], read: set[str]) -> Iterator[str]:
    if not read:
        yield next(iter(columns))
    yield from (name for name in columns if name.lower() in read)


def _ask_nothing_of_exists(query: exp.Query) -> None:
    """EXISTS looks at no column, so a star in it names none."""
    for exists in query.find_all(exp.Exists):
        inner = exists.this
        if isinstance(inner, exp.Select) and any(
            isinstance(one, exp.Star) for one in inner.expressions
        ):
            inner.set("expressions", [exp.Literal.number(1)])


def _spellings(query: exp.Query) -> dict[str, str]:
    """Names of columns as the statement spells them, by their lower case."""
    names = (one.args["alias"].name for one in query.find_all(exp.Alias) if one.args.get("alias"))
    return {name.lower(): name for name in names}


def _name_outputs(query: exp.Query, spellings: dict[str, str]) -> None:
    """What is computed goes by its own text where nobody named it."""
    outermost = query
    while isinstance(outermost, exp.SetOperation | exp.Subquery):
        outermost = outermost.this
    if not isinstance(outermost, exp.Select):
        return
    for projection in list(outermost.expressions):
        if isinstance(projection, exp.Alias | exp.Column | exp.Star | exp.Dot):
            continue
        name = projection.sql(dialect=DIALECT, comments=False).replace("`", "")[:_NAME_CHARS_MAX]
        if not name.isprintable():
            continue
        spellings.setdefault(name.lower(), name)
        projection.replace(exp.alias_(projection.copy(), name, quoted=True))
