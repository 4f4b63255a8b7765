"""How long and how deep a statement may be, measured on its words before it is parsed."""

from __future__ import annotations

from typing import Final

from sqlglot import TokenType
from sqlglot.dialects.dialect import Dialect

from workers.sql.checking.refusals import StatementRefused
from workers.sql.checking.spelling import refusing
from workers.sql.statements import DIALECT

CHARACTERS_MAX: Final = 20_000
WORDS_MAX: Final = 5_000
DEPTH_MAX: Final = 24
"""Of parentheses, brackets and CASE; Python's own stack is what a parser needs per level."""
UNARY_MAX: Final = 24
"""Of signs and NOT in a row."""

_OPEN: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_UNARY: Final = {TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.NOT}


def check_limits(statement: str) -> None:
    """Refuse, as StatementRefused, a text that is too long, nested too deeply, or no words."""
    if len(statement) > CHARACTERS_MAX:
        raise StatementRefused(
            "the statement is too long; say less at a time",
            characters=len(statement),
            characters_max=CHARACTERS_MAX,
        )
    if "\0" in statement:
        raise StatementRefused("the statement holds a character of code 0")
    with refusing("the statement cannot be read"):
        words = Dialect.get_or_raise(DIALECT).tokenize(statement)
    if len(words) > WORDS_MAX:
        raise StatementRefused(
            "the statement has too many words; say less at a time",
            words=len(words),
            words_max=WORDS_MAX,
        )
    depth = deepest = unary = longest_unary = 0
    for word in words:
        depth += (word.token_type in _OPEN) - (word.token_type in _CLOSE)
        deepest = max(deepest, depth)
        unary = unary + 1 if word.token_type in _UNARY else 0
        longest_unary = max(longest_unary, unary)
    if deepest > DEPTH_MAX or longest_unary > UNARY_MAX:
        raise StatementRefused(
            "the statement is nested too deeply; take it apart by WITH", levels_max=DEPTH_MAX
        )
