"""Where each column of a qualified query comes from, and that masked ones are shown and nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from workers.sql.checking.checked import OutputColumn, ReadableTable
from workers.sql.checking.refusals import MaskedColumnUsed, StatementRefused


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a table, or a field in one."""

    relation: str
    path: tuple[str, ...]


@dataclass(slots=True)
class Lineage:
    """Where columns of one qualified query come from. `tables` by their relations, `names` what the
    user calls those.
    """

    query: exp.Query
    tables: Mapping[str, ReadableTable]
    names: Mapping[str, str]
    _scopes: dict[int, Scope] = field(init=False)

    def __post_init__(self) -> None:
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(self.query)}

    def columns_read(self) -> dict[str, set[str]]:
        """By relation, the columns that are named of it, in lower case."""
        read: dict[str, set[str]] = {relation: set() for relation in self.tables}
        for column in self.query.find_all(exp.Column):
            if isinstance(source := self._source(column), exp.Table):
                read[source.name].add(column.name.lower())
        return read

    def check_masks(self) -> None:
        """Refuse, as MaskedColumnUsed with its name, a masked column that is more than shown."""
        for column in self.query.find_all(exp.Column):
            origin = self._origin(column)
            if origin is None or not self._is_masked(origin):
                continue
            if (why := _other_use(column)) is not None:
                raise MaskedColumnUsed(
                    "a masked column can only be shown as it is",
                    column=".".join(origin.path),
                    table=self.names[origin.relation],
                    not_allowed=why,
                )

    def outputs(self) -> Iterator[OutputColumn]:
        """The columns of the answer in their order, under lower-case names."""
        for projection in self.query.selects:
            expression = projection.unalias()
            column = expression.find(exp.Column) if _is_bare(expression) else None
            origin = self._origin(column) if column is not None else None
            is_masked = origin is not None and self._is_masked(origin)
            yield OutputColumn(projection.alias_or_name, is_masked)

    def _is_masked(self, origin: Origin) -> bool:
        return self.tables[origin.relation].is_masked(".".join(origin.path))

    def _origin(self, column: exp.Column) -> Origin | None:
        """None for what is computed. The fields behind a column belong to the path."""
        if not column.table:
            return self._of_alias(column)
        return self._through(self._source(column), column.name, _fields(column))

    def _through(
        self, source: exp.Table | Scope, name: str, fields: tuple[str, ...]
    ) -> Origin | None:
        for _ in range(len(self._scopes) + 1):
            if isinstance(source, exp.Table):
                if source.name not in self.tables:
                    raise _unresolved(name)
                return Origin(source.name, (name.lower(), *fields))
            select = source.expression
            if not isinstance(select, exp.Select):
                return None  # Of a union; in its branches nothing masked is let through.
            expression = _projection(source, select, name).unalias()
            column = expression.find(exp.Column) if _is_bare(expression) else None
            if column is None:
                return None
            fields = (*_fields(column), *fields)
            name, source = column.name, self._source(column)
        return None

    def _of_alias(self, column: exp.Column) -> Origin | None:
        """ORDER BY may name a column of its query's answer."""
        order = column.find_ancestor(exp.Order, exp.Query)
        query = order.parent if isinstance(order, exp.Order) else None
        if not isinstance(query, exp.Query):
            raise _unresolved(column.name)
        for projection in query.selects:
            if projection.alias_or_name == column.name:
                expression = projection.unalias()
                inner = expression.find(exp.Column) if _is_bare(expression) else None
                return self._origin(inner) if inner is not None else None
        raise _unresolved(column.name)

    def _source(self, column: exp.Column) -> exp.Table | Scope:
        if not column.table:
            return next(iter(self._scopes.values()))
        query = column.find_ancestor(exp.Query)
        while query is not None:
            scope = self._scopes.get(id(query))
            if scope is not None and column.table in scope.sources:
                source = scope.sources[column.table]
                assert isinstance(source, exp.Table | Scope), source
                return source
            query = query.find_ancestor(exp.Query)
        raise _unresolved(f"{column.table}.{column.name}")


def _projection(scope: Scope, select: exp.Select, name: str) -> exp.Expr:
    names = [str(outer).lower() for outer in scope.outer_columns]
    for at, projection in enumerate(select.selects):
        own = names[at] if at < len(names) else projection.alias_or_name.lower()
        if own == name.lower():
            return projection
    raise _unresolved(name)


def _is_bare(expression: exp.Expr) -> bool:
    while isinstance(expression, exp.Dot):
        expression = expression.this
    return isinstance(expression, exp.Column)


def _fields(column: exp.Column) -> tuple[str, ...]:
    names = []
    node: exp.Expr = column
    while isinstance(node.parent, exp.Dot) and node.arg_key == "this":
        node = node.parent
        names.append(node.expression.name.lower())
    return tuple(names)


def _other_use(column: exp.Column) -> str | None:
    """What is done with the column besides showing it; None for nothing."""
    node: exp.Expr = column
    while isinstance(node.parent, exp.Dot) and node.arg_key == "this":
        node = node.parent
    alias = node.parent
    select = alias.parent if isinstance(alias, exp.Alias) else None
    assert alias is not None
    if not isinstance(select, exp.Select) or alias.arg_key != "expressions":
        return _words(alias)
    if select.args.get("distinct"):
        return "DISTINCT"
    if select.args.get("group"):
        return "GROUP BY"
    return _use_of_query(select)


def _use_of_query(query: exp.Expr) -> str | None:
    """What becomes of a query's answer besides being shown or read from."""
    parent = query.parent
    match parent:
        case None | exp.CTE():
            return None
        case exp.Subquery() if parent.parent is None:
            return None
        case exp.Subquery() if isinstance(parent.parent, exp.From | exp.Join):
            return None if parent.arg_key == "this" else "JOIN"
        case exp.Subquery() if isinstance(parent.parent, exp.Subquery):
            return _use_of_query(parent)
        case exp.Subquery():
            return _use_of_query(parent) if parent.parent is None else _words(parent.parent)
        case _:
            return _words(parent)


_CLAUSES = (
    exp.Where, exp.Group, exp.Having, exp.Order, exp.Join, exp.Window, exp.SetOperation, exp.In,
    exp.Exists,
)  # fmt: skip


def _words(node: exp.Expr) -> str:
    """The clause that it stands in, as a person would say it."""
    clause = node if isinstance(node, _CLAUSES) else node.find_ancestor(*_CLAUSES, exp.Query)
    match clause:
        case exp.Where():
            return "WHERE"
        case exp.Group():
            return "GROUP BY"
        case exp.Having():
            return "HAVING"
        case exp.Window():
            return "a window"
        case exp.Order():
            return "ORDER BY"
        case exp.Join():
            return "JOIN"
        case exp.SetOperation():
            return clause.key.upper()
        case exp.In():
            return "IN"
        case exp.Exists():
            return "EXISTS"
        case _:
            return "an expression"


def _unresolved(name: str) -> StatementRefused:
    return StatementRefused("this column cannot be resolved", column=name[:200])
