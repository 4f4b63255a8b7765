"""Filters of rows from form fields: column, operator and value become a condition in SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.rows.answers import RowColumn

OPERATORS: Final = {
    "=": "=",
    "!=": "≠",
    "<": "<",
    "<=": "≤",
    ">": ">",
    ">=": "≥",
    "in": "is one of",
    "contains": "contains",
    "starts": "starts with",
    "null": "is null",
    "not-null": "is not null",
}
"""By their name in the form."""
VALUE_CHARS_MAX: Final = 1_000
_NUMBERS: Final = ("bigint", "int", "smallint", "tinyint", "double", "float", "decimal")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE")
)


class FilterProblem(ValueError):
    """The fields make up an invalid condition; the text is for the user."""


@dataclass(frozen=True, slots=True)
class FilterFields:
    """What was entered."""

    column: str
    operator: str
    value: str


def add_condition(where: str, fields: FilterFields, columns: Sequence[RowColumn]) -> str:
    """Return `where` with the condition of these fields as well. Raises FilterProblem."""
    condition = build_condition(fields, columns)
    if not where.strip():
        return condition
    has_or = re.search(r"\bOR\b", where, re.IGNORECASE)
    return f"({where}) AND {condition}" if has_or else f"{where} AND {condition}"


def build_condition(fields: FilterFields, columns: Sequence[RowColumn]) -> str:
    """Return the condition as SQL. Raises FilterProblem."""
    column = next((column for column in columns if column.name == fields.column), None)
    if column is None:
        raise FilterProblem("Choose a column.")
    if column.is_masked:
        raise FilterProblem(f"Column {column.name} is masked and cannot be used in a filter.")
    name, value = _quote_name(column.name), fields.value.strip()
    match fields.operator:
        case "null":
            return f"{name} IS NULL"
        case "not-null":
            return f"{name} IS NOT NULL"
        case "in":
            values = [part.strip() for part in value.split(",") if part.strip()]
            if not values:
                raise FilterProblem("Enter one or more values, separated by commas.")
            return f"{name} IN ({', '.join(_literal(part, column) for part in values)})"
        case "contains" | "starts" as kind:
            return _like(name, value, column, kind)
        case "=" | "!=" | "<" | "<=" | ">" | ">=" as sign:
            return f"{name} {sign} {_literal(fields.value, column)}"
        case _:
            raise FilterProblem("Choose an operator.")


def _like(name: str, value: str, column: RowColumn, kind: str) -> str:
    if column.type != "string":
        raise FilterProblem(f"Column {column.name} is {column.type}; only text can be searched.")
    if not value:
        raise FilterProblem("Enter a value.")
    if "%" in value or "_" in value:
        raise FilterProblem("Type conditions with % or _ as SQL with LIKE.")
    pattern = _quote(f"%{value}%" if kind == "contains" else f"{value}%")
    return f"{name} LIKE {pattern}"


def _literal(value: str, column: RowColumn) -> str:
    text = value.strip()
    if column.type == "boolean":
        if text.lower() not in ("true", "false"):
            raise FilterProblem(f"Column {column.name} is boolean; enter true or false.")
        return text.upper()
    if column.type.startswith(_NUMBERS):
        if not _NUMBER.fullmatch(text):
            raise FilterProblem(f"Column {column.name} is {column.type}; enter a number.")
        return text
    return _quote(value if column.type == "string" else text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    if "`" in name:
        raise FilterProblem("Type a condition on this column as SQL: its name has a backtick.")
    return f"`{name}`"
