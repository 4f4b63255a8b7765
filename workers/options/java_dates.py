"""Date patterns of Java's libraries as tokens: only those parts that mean the same wherever a table
is written.

A pattern character whose text depends on a locale, a zone's name or the year in which it is read is
rejected by name: another process would format another text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from workers.errors import InvalidInput

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)")
_WRITTEN: Final = "yYMdHhkKmsSDexw"
"""The pattern characters that a path may contain."""
_READ: Final = "yMdHhmsSZ"
_NAMES_FROM: Final = 3
"""The number of repetitions from which a month or a day of the week is a word."""
_FRACTION_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Token:
    """A character of a Java date pattern, repeated `count` times, or literal text."""

    letter: str
    """Empty for text that stands for itself."""
    count: int = 0
    text: str = ""

    @property
    def is_number(self) -> bool:
        """True if it represents digits; a zone (`Z`) and literal text do not."""
        return bool(self.letter) and self.letter != "Z"


def written_pattern(pattern: str) -> tuple[Token, ...]:
    """Parse a pattern by which times are formatted. Raises InvalidInput."""
    tokens = _tokens(pattern)
    for token in tokens:
        if token.letter:
            _check(pattern, token, _WRITTEN)
    if not any(token.letter for token in tokens):
        raise InvalidInput("the date pattern names no part of a date", pattern=pattern)
    return tokens


def read_pattern(pattern: str) -> tuple[Token, ...]:
    """Parse a pattern by which texts are parsed: with a year, each part once. Raises
    InvalidInput.
    """
    tokens = _tokens(pattern)
    letters = [token.letter for token in tokens if token.letter]
    for token in tokens:
        if token.letter:
            _check(pattern, token, _READ)
        if token.letter == "y" and token.count != 4:
            raise InvalidInput("a year is read as yyyy", pattern=pattern)
    if "y" not in letters or len(set(letters)) < len(letters):
        raise InvalidInput(
            "a date pattern to read names the year, and each part once", pattern=pattern
        )
    return tokens


def _tokens(pattern: str) -> tuple[Token, ...]:
    tokens, at = [], 0
    while at < len(pattern):
        part = _TOKEN.match(pattern, at)
        if part is None:
            raise InvalidInput("the date pattern has an open quote", pattern=pattern)
        quoted, letter, plain = part.groups()
        if letter:
            tokens.append(Token(letter, len(part[0])))
        else:
            tokens.append(Token("", text=plain or quoted.replace("''", "'") or "'"))
        at = part.end()
    return tuple(tokens)


def _check(pattern: str, token: Token, supported: str) -> None:
    is_name = token.letter in "Me" and token.count >= _NAMES_FROM
    is_long = token.letter == "S" and token.count > _FRACTION_MAX
    if token.letter not in supported or is_name or is_long:
        raise InvalidInput(
            "the date pattern has a part that is not supported",
            pattern=pattern,
            part=token.letter * token.count,
            supported=", ".join(supported),
        )
