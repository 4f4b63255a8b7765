"""Every part of a statement's tree against the list of what there may be."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from sqlglot import exp

from workers.sql.checking.allowed import FUNCTIONS, OPERATORS, QUERIES, TYPES, UNITS
from workers.sql.checking.refusals import StatementRefused
from workers.sql.statements import DIALECT

OWN_PREFIX: Final = "_sluice_"
"""What names of ours begin with, so that none of a user's can be taken for one."""
NAME_CHARS_MAX: Final = 255
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
_LENGTH = re.compile(r"[-+]?\d+(\.\d*)?")
_WORDS = re.compile(r"[A-Za-z]+( [A-Za-z]+){0,3}")
# An engine's spelling of these says their argument several times, which doubles with each level.
_COLLECTING: Final = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_JOINS: Final = {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}


def check_parts(query: exp.Expr, *, owns_names: bool = False) -> None:
    """Refuse, as StatementRefused, the first part that is not allowed, by its name. `owns_names`:
    names of ours have been put in, so these are no harm.
    """
    for node in query.walk():
        kind = type(node)
        if kind not in QUERIES and kind not in OPERATORS and kind not in FUNCTIONS:
            raise _refused(node)
        known = QUERIES.get(kind)
        for name, part in node.args.items():
            if part is None or part is False or part == []:
                continue
            if known is not None and name not in known:
                raise StatementRefused(
                    "this part of a query is not allowed",
                    part=name.rstrip("_").replace("_", " ").upper(),
                    of=kind.__name__.upper(),
                )
            if kind not in (exp.Identifier, exp.Literal):
                _check_words(node, part)
        _check_node(node, owns_names)


def _check_node(node: exp.Expr, owns_names: bool) -> None:
    match node:
        case exp.Identifier():
            _check_name(str(node.this), owns_names)
        case exp.Literal(is_string=False) if not _NUMBER.fullmatch(str(node.this)):
            raise StatementRefused("this is no number", given=str(node.this)[:80])
        case exp.Var() if str(node.this).upper() not in UNITS:
            raise StatementRefused("a bare word is a unit of time", given=str(node.this)[:80])
        case exp.DataType() if node.this not in TYPES:
            raise StatementRefused("this type is not allowed", type=_said(node))
        case exp.Cast() if any(node.args.get(name) for name in ("format", "default", "action")):
            raise StatementRefused("CAST takes a type and nothing else", given=_said(node))
        case exp.Table() if not all(isinstance(part, exp.Identifier) for part in node.parts):
            raise StatementRefused(
                "only tables are read from, no functions and no files", given=_said(node)
            )
        case exp.Select() if not node.expressions:
            raise StatementRefused("a SELECT names what it gives")
        case exp.Join() if str(node.args.get("kind") or "").upper() not in _JOINS:
            raise StatementRefused("this kind of join is not allowed", given=node.args["kind"])
        case exp.Limit() | exp.Offset() if not _is_number(node.expression):
            raise StatementRefused("LIMIT and OFFSET take a number", given=_said(node))
        case exp.Star() if not _is_star_of_list(node):
            raise StatementRefused("a star stands for columns only in the list of a SELECT")
        case exp.Interval() if not _is_plain(node):
            raise StatementRefused("an interval is a number and a unit", given=_said(node))
        case exp.StrPosition() if node.args.get("position") or node.args.get("occurrence"):
            raise StatementRefused("a text is looked for from its beginning", given=_said(node))
        case exp.ArrayAgg() | exp.ArrayUniqueAgg() if node.find_ancestor(*_COLLECTING):
            raise StatementRefused("collected lists are not collected", given=_said(node))
        case exp.TsOrDsToDate() | exp.TimeToStr() | exp.StrToTime() | exp.StrToUnix():
            _check_format(node)
        case _:
            pass


def _check_name(name: str, owns_names: bool) -> None:
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise StatementRefused("this is no name", given=repr(name[:80]))
    if name.lower().startswith(OWN_PREFIX) and not owns_names:
        raise StatementRefused("names that begin like this are our own", name=name[:80])


def _check_words(node: exp.Expr, part: object) -> None:
    """What is no tree of its own is printed as it is, so it must be harmless."""
    if isinstance(part, exp.Expr | bool | int | Enum):
        return
    if isinstance(part, list):
        for member in part:
            _check_words(node, member)
    elif not isinstance(part, str) or not _WORDS.fullmatch(part):
        raise _refused(node)


def _check_format(node: exp.Expr) -> None:
    """A pattern that is computed cannot be put into another engine's spelling."""
    pattern = node.args.get("format")
    if pattern is not None and not isinstance(pattern, exp.Literal):
        raise StatementRefused("a pattern of dates is a text", given=_said(node))


def _is_plain(interval: exp.Interval) -> bool:
    length = interval.this
    has_length = not isinstance(length, exp.Literal) or _LENGTH.fullmatch(length.name) is not None
    return has_length and isinstance(interval.args.get("unit"), exp.Var)


def _is_number(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()


def _is_star_of_list(star: exp.Star) -> bool:
    of: exp.Expr = star
    if isinstance(star.parent, exp.Column):
        of = star.parent
    elif isinstance(star.parent, exp.Count):
        return star.arg_key == "this"
    return isinstance(of.parent, exp.Select) and of.arg_key == "expressions"


def _refused(node: exp.Expr) -> StatementRefused:
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return StatementRefused("this function is not on the list", function=name[:80])
    return StatementRefused(
        "this is not allowed in a query", part=type(node).__name__.upper(), given=_said(node)
    )


def _said(node: exp.Expr) -> str:
    try:
        return node.sql(dialect=DIALECT, comments=False)[:120]
    except (ValueError, RecursionError):  # Some trees have no spelling.
        return type(node).__name__
