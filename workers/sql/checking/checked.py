"""What the checker is given of tables, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from workers.clock import InstantTime
from workers.sql.checking.spelling import spelled


def _never(_path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table whose rows somebody may read, as far as a statement needs to know it."""

    columns: Mapping[str, str]
    """Its columns in their order, by name: the type of each, as CREATE TABLE names it."""
    is_masked: Callable[[str], bool] = _never
    """Whether the column of this path, or a field in it, is masked; fields stand behind dots."""


Readable: TypeAlias = Callable[[frozenset[str]], Mapping[str, ReadableTable]]
"""From the names that a statement uses, in lower case, to those that may be read."""


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table of a checked statement."""

    relation: str
    """Its name in the text for an engine."""
    columns: tuple[str, ...]
    """What is read of it, in the table's order and spelling; at least one column."""
    times_read: int
    """How often the statement names it."""
    name: str
    """Its name in the statement, in lower case."""
    as_of: InstantTime | None = None
    """The completion time as of which it is read; None for its latest rows."""
    hint: str | None = None
    """A condition on columns that are not masked: rows that fail it may be left unread."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the answer."""

    name: str
    is_masked: bool = False
    """Whether it, or a field in it, is shown as the mark."""


@dataclass(frozen=True, slots=True)
class CheckedSelect:
    """One SELECT that may run."""

    query: exp.Query = field(repr=False)
    """Every column qualified, every table and CTE under a name of ours."""
    tables: Mapping[str, CheckedTable]
    """By their names as the statement has them, in lower case; `name@time` for one as of a time."""
    columns: tuple[OutputColumn, ...]

    def text(self, dialect: str) -> str:
        """The statement for an engine in which tables go by their relations; comments are gone.

        `dialect`: `duckdb` or `spark`. Raises StatementRefused for what cannot be spelled.
        """
        return spelled(self.query, dialect)
