"""A condition over a table's columns, from a text in the spelling of SQL. Nothing is evaluated.

`city = 'Oslo' AND (value >= 10 OR note IS NULL) AND NOT id IN ('a', 'b')`. Known are AND, OR, NOT,
parentheses, `= == != <> < <= > >=`, IN, BETWEEN, LIKE, IS [NOT] NULL, numbers, texts in single
quotes, TRUE, FALSE, and column names, bare or in double quotes or backticks. A text compared with a
column of another type (`day < '2024-01-01'`) is taken for a value of that type. As in SQL, a row
whose condition is null does not match.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.read.pruning import Condition, among, compares

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | '(?P<text>(?:[^']|'')*)'
      | "(?P<quoted>[^"]+)" | `(?P<ticked>[^`]+)`
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><>|!=|<=|>=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KEYWORDS = frozenset(("AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"))
_LENGTH_MAX = 10_000
_DEPTH_MAX = 50

Expression: TypeAlias = Any
"""`pyarrow.compute.Expression`, whose operators the type stubs do not know."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition that fits a table's schema: made by `predicate_of`."""

    expression: Expression
    columns: frozenset[str] | None
    """The columns that it looks at; None when that is not known."""
    conditions: tuple[Condition, ...] = ()
    """Some of what must hold of single columns, for telling where matching rows may be."""


def predicate_of(given: object, schema: pa.Schema) -> Predicate:
    """The predicate of a text or a `pyarrow.compute` expression. Raises InvalidInput when it does
    not fit.
    """
    if isinstance(given, str):
        predicate = _Parser(given, schema).parse()
    elif isinstance(given, pc.Expression):
        predicate = Predicate(given, None)
    else:
        raise InvalidInput("a predicate is text or a pyarrow expression", type=type(given))
    try:
        schema.empty_table().filter(predicate.expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput("the predicate does not fit the table's columns", why=error) from error
    return predicate


def _is_there(value: Any) -> bool:
    return value is not None


@dataclass(slots=True)
class _Parser:
    text: str
    schema: pa.Schema
    tokens: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0
    depth: int = 0
    columns: set[str] = field(default_factory=set)
    simple: list[Condition] = field(default_factory=list)
    """What the last condition says of its column."""
    required: list[Condition] = field(default_factory=list)
    """Of those that AND joins outside of all parentheses."""

    def parse(self) -> Predicate:
        self.tokens = self._tokens()
        expression = self._any()
        if self.at < len(self.tokens):
            raise self._error("nothing more was expected")
        return Predicate(expression, frozenset(self.columns), tuple(self.required))

    def _tokens(self) -> list[tuple[str, str]]:
        if len(self.text) > _LENGTH_MAX:
            raise InvalidInput("predicate is too long", characters_max=_LENGTH_MAX)
        tokens, at, text = [], 0, self.text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise InvalidInput("predicate cannot be read", predicate=self.text, at=at)
            kind = str(match.lastgroup)
            value = match[kind]
            if kind == "word" and value.upper() in _KEYWORDS:
                kind, value = "keyword", value.upper()
            tokens.append((kind, value))
            at = match.end()
        return tokens

    def _any(self) -> Expression:
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise self._error("predicate is nested too deeply")
        expression = self._all()
        while self._takes("keyword", "OR"):
            expression = expression | self._all()
            if self.depth == 1:
                self.required = []
        self.depth -= 1
        return expression

    def _all(self) -> Expression:
        expression = self._not()
        while self._takes("keyword", "AND"):
            expression = expression & self._not()
        return expression

    def _not(self) -> Expression:
        negations = 0
        while self._takes("keyword", "NOT"):
            negations += 1
        self.simple = []
        expression = self._condition()
        if self.depth == 1 and not negations:
            self.required += self.simple
        return ~expression if negations % 2 else expression

    def _condition(self) -> Expression:
        if self._takes("sign", "("):
            expression = self._any()
            self._expect("sign", ")")
            self.simple = []
            return expression
        name = self._column()
        column: Any = pc.field(name)
        if self._takes("keyword", "IS"):
            is_negated = self._takes("keyword", "NOT")
            self._expect("keyword", "NULL")
            self.simple = [Condition(name, _is_there) if is_negated else among(name, None)]
            return column.is_valid() if is_negated else column.is_null()
        is_negated = self._takes("keyword", "NOT")
        expression = self._membership(name, column)
        if expression is not None:
            self.simple = [] if is_negated else self.simple
            return ~expression if is_negated else expression
        if is_negated:
            raise self._error("IN, BETWEEN or LIKE was expected")
        sign = self._next("sign")
        if sign not in _COMPARISONS:
            raise self._error("a comparison was expected")
        compare, value = _COMPARISONS[sign], self._value(name)
        is_equal = compare is operator.eq
        plain = value.as_py()
        self.simple = [among(name, plain) if is_equal else compares(name, compare, plain)]
        return compare(column, value)

    def _membership(self, name: str, column: Any) -> Expression | None:
        if self._takes("keyword", "IN"):
            self._expect("sign", "(")
            values = [self._value(name)]
            while self._takes("sign", ","):
                values.append(self._value(name))
            self._expect("sign", ")")
            expression = column == values[0]
            for value in values[1:]:
                expression = expression | (column == value)
            self.simple = [among(name, *(value.as_py() for value in values))]
            return expression
        if self._takes("keyword", "BETWEEN"):
            least = self._value(name)
            self._expect("keyword", "AND")
            most = self._value(name)
            self.simple = [
                compares(name, operator.ge, least.as_py()),
                compares(name, operator.le, most.as_py()),
            ]
            return (column >= least) & (column <= most)
        if self._takes("keyword", "LIKE"):
            return pc.match_like(column, self._next("text").replace("''", "'"))
        return None

    def _column(self) -> str:
        for kind in ("word", "quoted", "ticked"):
            if self._peek(kind):
                name = self._next(kind)
                if name not in self.schema.names:
                    raise InvalidInput(
                        "predicate names no column", column=name, known=self.schema.names
                    )
                self.columns.add(name)
                return name
        raise self._error("a column was expected")

    def _value(self, name: str) -> Any:
        if self._takes("keyword", "TRUE"):
            return pa.scalar(True)
        if self._takes("keyword", "FALSE"):
            return pa.scalar(False)
        if self._peek("number"):
            text = self._next("number")
            return pa.scalar(int(text) if text.lstrip("-").isdigit() else float(text))
        if self._peek("keyword"):
            raise self._error("a value was expected; for missing values say IS NULL")
        return self._typed(name, self._next("text").replace("''", "'"))

    def _typed(self, name: str, text: str) -> Any:
        target: Any = self.schema.field(name).type
        try:
            return pa.scalar(text) if pa.types.is_string(target) else pa.scalar(text).cast(target)
        except pa.ArrowException as error:
            raise InvalidInput(
                "predicate compares a column with no value of its type",
                column=name,
                type=target,
                value=text,
            ) from error

    def _peek(self, kind: str, value: str | None = None) -> bool:
        if self.at >= len(self.tokens):
            return False
        token_kind, token = self.tokens[self.at]
        return token_kind == kind and value in (None, token)

    def _takes(self, kind: str, value: str) -> bool:
        is_there = self._peek(kind, value)
        self.at += is_there
        return is_there

    def _expect(self, kind: str, value: str) -> None:
        if not self._takes(kind, value):
            raise self._error(f"{value} was expected")

    def _next(self, kind: str) -> str:
        if not self._peek(kind):
            raise self._error(f"a {kind} was expected")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def _error(self, message: str) -> InvalidInput:
        token = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"
        return InvalidInput(message, predicate=self.text, found=token)
