"""A condition on rows as people type it: `city = 'Oslo' and (ts >= 5 or ts is null)`.

A grammar of its own: nothing is evaluated but comparisons of columns with literals, and a column
that the table does not have is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput

TEXT_CHARS_MAX = 2_000
_DEPTH_MAX = 20
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|!=|<>|=|<|>|\(|\)|,))"
)
_COMPARE: dict[str, Callable[[pc.Expression, pa.Scalar[Any]], Any]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<>": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
_WORDS = frozenset({"and", "or", "not", "is", "null", "in", "true", "false"})


@dataclass(frozen=True, slots=True)
class Predicate:
    condition: pc.Expression
    columns: tuple[str, ...]
    """The columns that it looks at."""


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Raises InvalidInput, naming where it cannot be read or which column there is not."""
    if not text.strip() or len(text) > TEXT_CHARS_MAX:
        raise InvalidInput("a predicate is a condition of sensible length", most=TEXT_CHARS_MAX)
    parser = _Parser(text, _tokens(text), schema)
    condition = parser.either()
    parser.expect_end()
    return Predicate(condition, tuple(sorted(parser.columns)))


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found, at = [], 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            raise InvalidInput("a predicate cannot be read", at=at, text=text[at : at + 20])
        kind = str(token.lastgroup)
        found.append((kind, token.group(kind), at))
        at = token.end()
    return found


@dataclass(slots=True)
class _Parser:
    text: str
    tokens: list[tuple[str, str, int]]
    schema: pa.Schema
    columns: set[str] = field(default_factory=set)
    _next: int = 0
    _depth: int = 0

    def either(self) -> pc.Expression:
        found = self._both()
        while self._take("or"):
            found = found | self._both()
        return found

    def expect_end(self) -> None:
        if self._next < len(self.tokens):
            raise self._wrong("the end")

    def _both(self) -> pc.Expression:
        found = self._one()
        while self._take("and"):
            found = found & self._one()
        return found

    def _one(self) -> pc.Expression:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidInput("a predicate is nested too deep", most=_DEPTH_MAX)
        try:
            if self._take("not"):
                return ~self._one()
            if self._take("("):
                found = self.either()
                self._expect(")")
                return found
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> pc.Expression:
        name, kind = self._column()
        column = pc.field(name)
        if self._take("is"):
            is_not = self._take("not")
            self._expect("null")
            is_null: pc.Expression = column.is_null()
            return ~is_null if is_not else is_null
        if self._take("in"):
            return column.isin(self._values(kind))
        for sign, compare in _COMPARE.items():
            if self._take(sign):
                found: pc.Expression = compare(column, self._value(kind))
                return found
        raise self._wrong("a comparison")

    def _values(self, kind: pa.DataType) -> list[pa.Scalar[Any]]:
        self._expect("(")
        found = [self._value(kind)]
        while self._take(","):
            found.append(self._value(kind))
        self._expect(")")
        return found

    def _column(self) -> tuple[str, pa.DataType]:
        if self._next >= len(self.tokens) or self.tokens[self._next][0] != "name":
            raise self._wrong("a column")
        name = self.tokens[self._next][1]
        if name.lower() in _WORDS or name not in self.schema.names:
            raise InvalidInput("the table has no such column", column=name)
        self._next += 1
        self.columns.add(name)
        return name, self.schema.field(name).type

    def _value(self, kind: pa.DataType) -> pa.Scalar[Any]:
        if self._next >= len(self.tokens):
            raise self._wrong("a value")
        what, text, _ = self.tokens[self._next]
        if what == "text":
            value: str | int | float | bool = text[1:-1].replace("''", "'")
        elif what == "number":
            value = float(text) if "." in text else int(text)
        elif text.lower() in ("true", "false"):
            value = text.lower() == "true"
        else:
            raise self._wrong("a value")
        self._next += 1
        try:
            return pa.scalar(value).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(
                "a value is not of its column's type", value=text, type=kind
            ) from error

    def _take(self, word: str) -> bool:
        if self._next < len(self.tokens):
            kind, text, _ = self.tokens[self._next]
            if kind in ("name", "sign") and text.lower() == word:
                self._next += 1
                return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong(word)

    def _wrong(self, expected: str) -> InvalidInput:
        at = self.tokens[self._next][2] if self._next < len(self.tokens) else len(self.text)
        return InvalidInput("a predicate cannot be read", expected=expected, at=at)
