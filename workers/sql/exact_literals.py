"""Compare columns of tables with the numbers of a statement as `workers.read.predicate` does.

DuckDB and Spark convert both sides to doubles where a number has an exponent, too many digits or
another scale than the column. Here the numbers get the column's type before an engine reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from workers.read.exact_numbers import compare_exactly, is_numeric, parse_number
from workers.sql.statements import table_name

_NODES: Final[Mapping[str, type[exp.Binary]]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_SIGNS: Final = {node: sign for sign, node in _NODES.items()}
_TURNED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SQL_DIGITS_MAX: Final = 38
_SchemaOf = Callable[[str], "pa.Schema | None"]


def with_exact_literals(query: exp.Expr, schema_of: _SchemaOf) -> exp.Expr:
    """Return the query with numbers of the types of the columns that they are compared with.

    `schema_of` returns the columns of a table by its name, or None for a relation without known
    types. Comparisons of anything but one column of a table with numbers stay as they are.
    """
    types = _Types(schema_of, frozenset(one.alias for one in query.find_all(exp.CTE)))
    return query.copy().transform(lambda node: _exact(node, types), copy=False)


class _Types:
    def __init__(self, schema_of: _SchemaOf, defined: frozenset[str]) -> None:
        self._schema_of = schema_of
        self._defined = defined

    def of(self, column: exp.Column) -> Any:
        """Return the type of a numeric column of a table, or None."""
        if column.find_ancestor(exp.Having, exp.Qualify, exp.Order, exp.Group):
            return None  # There a name may be one of the answer's.
        select = column.find_ancestor(exp.Select)
        while select is not None:
            sources = list(_sources(select))
            if column.table:
                sources = [one for one in sources if _is_same(one.alias_or_name, column.table)]
            kinds_by_source = [self._kinds(one, column.name) for one in sources]
            if None in kinds_by_source:
                return None
            if kinds := [kind for some in kinds_by_source for kind in some or ()]:
                return _widest(kinds[0]) if len(kinds) == 1 else None
            select = select.find_ancestor(exp.Select)
        return None

    def _kinds(self, source: exp.Expr, column: str) -> list[Any] | None:
        """Return the types of the source's columns of this name, or None if it is no table."""
        if not isinstance(source, exp.Table) or (name := table_name(source)) in self._defined:
            return None
        schema = self._schema_of(name)
        return None if schema is None else [f.type for f in schema if _is_same(f.name, column)]


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    clause = select.args.get("from_")
    joins = select.args.get("joins") or []
    yield from (one.this for one in (clause, *joins) if one is not None)
    yield from select.args.get("laterals") or []


def _is_same(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def _widest(kind: Any) -> Any:
    """Return the type to compare in; None if the engines have no such type.

    An integer column may have been widened since its type was read.
    """
    if pa.types.is_decimal(kind):
        return kind if kind.precision <= _SQL_DIGITS_MAX else None
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    return kind if is_numeric(kind) else None


def _exact(node: exp.Expr, types: _Types) -> exp.Expr:
    match node:
        case exp.Between() if not node.args.get("symmetric"):
            return _between(node, types)
        case exp.In() if node.expressions:
            return _among(node, types)
        case exp.NullSafeEQ():
            is_equal = _either_way("=", node, types)
            return node if is_equal is None else exp.func("COALESCE", is_equal, exp.false())
        case exp.Binary() if type(node) in _SIGNS:
            return _either_way(_SIGNS[type(node)], node, types) or node
        case _:
            return node


def _either_way(sign: str, node: exp.Binary, types: _Types) -> exp.Expr | None:
    left, right = node.this, node.expression
    compared = _compared(sign, left, right, types)
    return compared or _compared(_TURNED[sign], right, left, types)


def _between(node: exp.Between, types: _Types) -> exp.Expr:
    bounds = ((">=", node.args["low"]), ("<=", node.args["high"]))
    compared = [_compared(sign, node.this, bound, types) for sign, bound in bounds]
    if compared == [None, None]:
        return node
    parts = [
        exact or _NODES[sign](this=node.this.copy(), expression=bound.copy())
        for exact, (sign, bound) in zip(compared, bounds, strict=True)
    ]
    return exp.paren(exp.and_(*parts))


def _among(node: exp.In, types: _Types) -> exp.Expr:
    values: list[exp.Expr] = []
    never: exp.Expr | None = None
    for value in node.expressions:
        compared = _compared("=", node.this, value, types)
        if isinstance(compared, exp.EQ):
            values.append(compared.expression)
        elif compared is not None:
            never = compared
        elif isinstance(value, exp.Null):
            values.append(value)
        else:
            return node
    return exp.In(this=node.this.copy(), expressions=values) if values else never or node


def _compared(sign: str, column: exp.Expr, value: exp.Expr, types: _Types) -> exp.Expr | None:
    """Return the comparison with a number of the column's type; None if it stays as it is."""
    if not isinstance(column, exp.Column) or (number := _number(value)) is None:
        return None
    kind = types.of(column)
    if kind is None:
        return None
    compared = compare_exactly(sign, number, kind)
    if isinstance(compared, bool):  # Null for a null, as any comparison.
        always = exp.EQ if compared else exp.NEQ
        return always(this=column.copy(), expression=column.copy())
    sign, exact = compared
    return _NODES[sign](this=column.copy(), expression=_typed(exact, kind))


def _number(value: exp.Expr) -> Decimal | None:
    match value:
        case exp.Paren():
            return _number(value.this)
        case exp.Neg():
            number = _number(value.this)
            return None if number is None else number.copy_negate()
        case exp.Literal():
            return parse_number(value.name)
        case _:
            return None


def _typed(value: Any, kind: Any) -> exp.Expr:
    if isinstance(value, int):
        return exp.Literal.number(value)
    if isinstance(value, float):
        text = "-Infinity" if math.isinf(value) else repr(value)
        return exp.cast(exp.Literal.string(text), "DOUBLE")
    decimal = f"DECIMAL({kind.precision}, {kind.scale})"
    return exp.cast(exp.Literal.string(f"{value:f}"), decimal)
