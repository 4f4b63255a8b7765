"""A condition over a table's columns, from a text in the spelling of SQL. Nothing is evaluated.

`city = 'Oslo' AND (value >= 10 OR note IS NULL) AND NOT id IN ('a', 'b')`. Known are AND, OR, NOT,
parentheses, `= == != <> < <= > >=`, IN, BETWEEN, LIKE, IS [NOT] NULL, numbers, texts in single
quotes, TRUE, FALSE, and column names, bare or in double quotes or backticks. A text compared with a
column of another type (`day < '2024-01-01'`) is taken for a value of that type. Numbers are
compared exactly, whatever the column's type: see `workers.read.exact_numbers`. As in SQL, a row
whose condition is null does not match.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.read.exact_numbers import compare_exactly, is_numeric, parse_number, to_number
from workers.read.matching_rows import columns_of, matching
from workers.read.pruning import Condition, among, compares
from workers.read.row_groups import Opaque

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
_ONE_SPELLING = {"==": "=", "<>": "!="}
_NULL_COMPARISONS = ("is", "is not")
_KEYWORDS = frozenset(("AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"))
_LENGTH_MAX = 10_000
_DEPTH_MAX = 50

Expression: TypeAlias = Any
"""`pyarrow.compute.Expression`, whose operators the type stubs do not know."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition that fits a table's schema: made by `predicate_of`."""

    expression: Expression
    """None for a hint."""
    columns: frozenset[str]
    """Those that it looks at."""
    conditions: tuple[Condition, ...] = ()
    """Some of what must hold of single columns, for telling where matching rows may be."""
    opaque: Opaque | None = None
    """What is no conditions."""

    def as_hint(self) -> Predicate:
        """Return what leaves slices and row groups out as this does, and filters no row."""
        return Predicate(None, frozenset(), self.conditions)


def predicate_of(given: object, schema: pa.Schema) -> Predicate:
    """The predicate of a text, of a `pyarrow.compute` expression, or of conditions that must all
    hold, each (column, comparison, value). Raises InvalidInput when it does not fit.
    """
    if isinstance(given, str):
        predicate = _Parser(given, schema).parse()
    elif isinstance(given, pc.Expression):
        looked_at = columns_of(given, schema)
        predicate = Predicate(given, looked_at, opaque=Opaque(given, looked_at))
    elif isinstance(given, (list, tuple)) and given:
        predicate = _of_triples(given, schema)
    else:
        forms = "text, a pyarrow expression or a list of (column, comparison, value)"
        raise InvalidInput(f"a predicate is {forms}", type=type(given).__name__)
    try:
        matching(schema.empty_table(), predicate.expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput("the predicate does not fit the table's columns", why=error) from error
    return predicate


def _of_triples(given: Sequence[Any], schema: pa.Schema) -> Predicate:
    conditions: list[Condition] = []
    expression: Expression = None
    for triple in given:
        if not isinstance(triple, (list, tuple)) or len(triple) != 3:
            raise InvalidInput("a condition is (column, comparison, value)", given=triple)
        name, sign, value = triple
        single, condition = _of_triple(name, sign, value, schema)
        expression = single if expression is None else expression & single
        conditions += [] if condition is None else [condition]
    return Predicate(expression, frozenset(one[0] for one in given), tuple(conditions))


def _of_triple(
    name: Any, sign: Any, value: Any, schema: pa.Schema
) -> tuple[Expression, Condition | None]:
    if name not in schema.names:
        raise InvalidInput("predicate names no column", column=name, known=schema.names)
    column: Any = pc.field(name)
    sign = str(sign).lower()
    if value is None:
        if sign not in _NULL_COMPARISONS:
            raise InvalidInput("for missing values say 'is' or 'is not'", column=name, given=sign)
        is_null = sign == "is"
        condition = among(name, None) if is_null else Condition(name, _is_there)
        return (column.is_null() if is_null else column.is_valid()), condition
    if sign in ("in", "not in"):
        if not isinstance(value, (list, tuple, set, frozenset)) or not value or None in value:
            raise InvalidInput(
                "'in' takes a list of values, none of them missing", column=name, given=value
            )
        expression, condition = _is_among(name, value, schema)
        return (~expression, None) if sign == "not in" else (expression, condition)
    if sign not in _COMPARISONS:
        known = sorted({*_COMPARISONS, *_NULL_COMPARISONS, "in", "not in"})
        raise InvalidInput("predicate knows no such comparison", given=sign, known=known)
    return _compared(name, sign, value, schema)


def _compared(name: str, sign: str, value: Any, schema: pa.Schema) -> tuple[Expression, Condition]:
    """The column compared with one value. Raises InvalidInput."""
    column: Any = pc.field(name)
    kind: Any = schema.field(name).type
    number = _number(value, kind)
    if number is None:
        scalar = _scalar(name, value, schema)
    else:
        compared = compare_exactly(_ONE_SPELLING.get(sign, sign), number, kind)
        if isinstance(compared, bool):
            # Neither is true of null, and neither is its negation.
            never: Any = pc.and_kleene(column.is_null(), pa.scalar(None, pa.bool_()))
            return (~never, Condition(name, _is_there)) if compared else (never, among(name))
        sign, scalar = compared[0], pa.scalar(compared[1], _compared_type(kind))
    compare, plain = _COMPARISONS[sign], scalar.as_py()
    condition = among(name, plain) if compare is operator.eq else compares(name, compare, plain)
    return compare(column, scalar), condition


def _is_among(name: str, values: Iterable[Any], schema: pa.Schema) -> tuple[Expression, Condition]:
    """The column holds one of the values. Raises InvalidInput."""
    parts, conditions = zip(*(_compared(name, "=", one, schema) for one in values), strict=True)
    expression = functools.reduce(operator.or_, parts)
    return expression, among(name, *(value for one in conditions for value in one.values or ()))


def _number(value: Any, kind: Any) -> Decimal | None:
    """The number to compare a column of this type with; None for values of other types."""
    if not is_numeric(kind):
        return None
    return parse_number(value) if isinstance(value, str) else to_number(value)


def _compared_type(kind: Any) -> Any:
    return pa.float64() if pa.types.is_floating(kind) else kind


def _scalar(name: str, value: Any, schema: pa.Schema) -> Any:
    """Text that is compared with a column of another type is taken for a value of that type."""
    if isinstance(value, str):
        return _typed_text(name, value, schema)
    try:
        return pa.scalar(value)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInput("predicate has a value of no known type", column=name) from error


def _typed_text(name: str, text: str, schema: pa.Schema) -> Any:
    """The scalar that `text` says, of the column's type. Raises InvalidInput for none."""
    target: Any = schema.field(name).type
    try:
        return pa.scalar(text) if pa.types.is_string(target) else pa.scalar(text).cast(target)
    except pa.ArrowException as error:
        raise InvalidInput(
            "predicate compares a column with no value of its type",
            column=name,
            type=target,
            value=text,
        ) from error


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
        expression, condition = _compared(name, sign, self._value(), self.schema)
        self.simple = [condition]
        return expression

    def _membership(self, name: str, column: Any) -> Expression | None:
        if self._takes("keyword", "IN"):
            self._expect("sign", "(")
            values = [self._value()]
            while self._takes("sign", ","):
                values.append(self._value())
            self._expect("sign", ")")
            expression, condition = _is_among(name, values, self.schema)
            self.simple = [condition]
            return expression
        if self._takes("keyword", "BETWEEN"):
            least, at_least = _compared(name, ">=", self._value(), self.schema)
            self._expect("keyword", "AND")
            most, at_most = _compared(name, "<=", self._value(), self.schema)
            self.simple = [at_least, at_most]
            return least & most
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

    def _value(self) -> bool | str | Decimal:
        for word in ("TRUE", "FALSE"):
            if self._takes("keyword", word):
                return word == "TRUE"
        if self._peek("number"):
            number = parse_number(self._next("number"))
            if number is None:
                raise self._error("the number has too many digits in its exponent")
            return number
        if self._peek("keyword"):
            raise self._error("a value was expected; for missing values say IS NULL")
        return self._next("text").replace("''", "'")

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
