"""Which table each name of a statement means, and names of ours in their place.

A CTE is seen from where SQL says, behind its definition and in what is nested there. Tables and
CTEs both get names that nobody else gives, so no engine looks one up in a place of its own. How
many columns each query has is counted on the way: stars of stars grow without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlglot import exp

from workers.clock import InstantTime
from workers.sql.checking.checked import Readable, ReadableTable
from workers.sql.checking.parts import OWN_PREFIX
from workers.sql.checking.refusals import StatementRefused, UnreadableTable
from workers.sql.checking.times import get_time

TABLES_MAX: Final = 32
"""Tables, CTEs and subqueries that one statement reads from."""
COLUMNS_MAX: Final = 2_000
NODES_MAX: Final = 20_000
"""Of one SELECT, once each alias stands for what it names."""


@dataclass(frozen=True, slots=True)
class _Cte:
    name: str
    width: int


_Visible = Mapping[str, _Cte]


@dataclass(frozen=True, slots=True)
class NamedTables:
    """The tables of a statement by their names in it, in lower case: `name@time` as of a time."""

    readable: Mapping[str, ReadableTable]
    relations: Mapping[str, str]
    times_read: Mapping[str, int]
    sources: Mapping[str, TableSource]


class TableSource(NamedTuple):
    """A table as a statement names it, and the time as of which it reads it."""

    name: str
    as_of: InstantTime | None

    @property
    def key(self) -> str:
        """Among the tables of the statement."""
        return self.name if self.as_of is None else f"{self.name}@{self.as_of}"


def name_tables(query: exp.Query, readable: Readable) -> NamedTables:
    """Put names of ours into the query, in place. Raises UnreadableTable for a table that may not
    be read, StatementRefused for one that would grow too large.
    """
    places = sum(1 for _ in query.find_all(exp.Table, exp.Subquery, exp.CTE))
    if places > TABLES_MAX:
        raise StatementRefused(
            "the statement reads from too many places", places=places, places_max=TABLES_MAX
        )
    finding = _Naming()
    finding.visit(query, {})
    names = frozenset(source.name for source in finding.tables)
    by_name = dict(readable(names))
    if missing := sorted(names - by_name.keys()):
        raise UnreadableTable(
            "there is no such table, or you do not see it", table=missing[0][:200]
        )
    by_key = {source.key: source for source in finding.tables}
    tables = {key: by_name[source.name] for key, source in by_key.items()}
    relations = {key: f"{OWN_PREFIX}{at}" for at, key in enumerate(sorted(by_key))}
    _Naming(tables, relations).visit(query, {})
    _qualify_by_table(query, names)
    times_read = Counter(source.key for source in finding.tables)
    return NamedTables(tables, relations, times_read, by_key)


@dataclass(slots=True)
class _Naming:
    """Two visits: one collects the tables, the other renames them, once they are known."""

    known: Mapping[str, ReadableTable] | None = None
    relations: Mapping[str, str] = field(default_factory=dict)
    tables: list[TableSource] = field(default_factory=list)
    _ctes: int = 0

    def visit(self, node: exp.Expr, visible: _Visible) -> int:
        """How many columns the query or table has; 0 for what is neither."""
        if isinstance(node, exp.Table):
            return self._table(node, visible)
        if isinstance(node, exp.Query):
            visible = self._with(node.args.get("with_"), visible)
        width = 0
        if isinstance(node, exp.Select):
            width = self._select(node, visible)
        elif isinstance(node, exp.SetOperation):
            width = self.visit(node.this, visible)
            self.visit(node.expression, visible)
            self._rest(node, visible, "this", "expression")
        elif isinstance(node, exp.Subquery):
            width = self.visit(node.this, visible)
        else:
            self._rest(node, visible)
        return width

    def _with(self, clause: exp.With | None, visible: _Visible) -> _Visible:
        if clause is None:
            return visible
        seen = dict(visible)
        for cte in clause.expressions:
            name = cte.alias.lower()
            own = f"{OWN_PREFIX}c{self._ctes}"
            self._ctes += 1
            inner = dict(seen)
            if clause.args.get("recursive"):
                inner[name] = _Cte(own, _recursive_width(cte))
            width = self.visit(cte.this, inner)
            seen[name] = _Cte(own, width)
            if self.known is not None:
                cte.args["alias"].set("this", exp.to_identifier(own, quoted=True))
        return seen

    def _select(self, select: exp.Select, visible: _Visible) -> int:
        from_, joins = select.args.get("from_"), select.args.get("joins") or []
        sources = [*([from_.this] if from_ is not None else []), *(join.this for join in joins)]
        width_of_all = sum(self.visit(source, visible) for source in sources)
        for join in joins:
            self._rest(join, visible, "this")
        self._rest(select, visible, "with_", "from_", "joins")
        width = sum(width_of_all if _is_star(one) else 1 for one in select.expressions)
        if width > COLUMNS_MAX:
            raise StatementRefused(
                "a query gives too many columns", columns=width, columns_max=COLUMNS_MAX
            )
        _check_growth(select)
        return width

    def _rest(self, node: exp.Expr, visible: _Visible, *done: str) -> None:
        for name, part in node.args.items():
            if name in done or name == "with_":
                continue
            for child in part if isinstance(part, list) else [part]:
                if isinstance(child, exp.Expr):
                    self.visit(child, visible)

    def _table(self, table: exp.Table, visible: _Visible) -> int:
        name = ".".join(part.name for part in table.parts).lower()
        source = TableSource(name, get_time(table))
        cte = visible.get(name) if table.args.get("db") is None else None
        if cte is not None and source.as_of is not None:
            raise StatementRefused("only tables are read as of a time", name=name[:200])
        if cte is None and self.known is None:
            self.tables.append(source)
            return 0
        if self.known is None:
            return 0
        own = cte.name if cte is not None else self.relations[source.key]
        if not table.alias:
            alias = exp.to_identifier(table.name, quoted=True)
            table.set("alias", exp.TableAlias(this=alias))
        table.set("this", exp.to_identifier(own, quoted=True))
        table.set("db", None)
        return cte.width if cte is not None else len(self.known[source.key].columns)


def _qualify_by_table(query: exp.Query, names: Collection[str]) -> None:
    """`namespace.table.column` is a column of the table."""
    for column in query.find_all(exp.Column):
        if f"{column.db}.{column.table}".lower() in names:
            column.set("db", None)


def _recursive_width(cte: exp.CTE) -> int:
    query = cte.this
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return len(query.expressions) if isinstance(query, exp.Select) else COLUMNS_MAX


def _is_star(projection: exp.Expr) -> bool:
    is_of_table = isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
    return is_of_table or isinstance(projection, exp.Star)


def _check_growth(select: exp.Select) -> None:
    """Aliases that are made of aliases double with each step when they are put in."""
    sizes: dict[str, int] = {}
    total = 0
    for projection in select.expressions:
        size = _grown(projection, sizes)
        total += size
        if projection.alias:
            sizes[projection.alias.lower()] = size
    clauses = [select.args.get(name) for name in ("where", "group", "having", "order")]
    total += sum(_grown(clause, sizes) for clause in clauses if clause is not None)
    if total > NODES_MAX:
        raise StatementRefused("aliases made of aliases grow too large; take them apart by WITH")


def _grown(node: exp.Expr, sizes: Mapping[str, int]) -> int:
    return sum(
        sizes.get(part.name.lower(), 1) if isinstance(part, exp.Column) and not part.table else 1
        for part in node.walk()
    )
