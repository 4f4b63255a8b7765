"""`table TIMESTAMP AS OF '…'`: which time of a table a statement reads."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.read.request import moment
from workers.sql.checking.refusals import StatementRefused

_AS_OF: Final = "as_of"


def take_times(query: exp.Expr) -> None:
    """Take the times off the tables of the query, in place; `get_time` returns them afterwards.

    Raises StatementRefused for what is not one completion time as a text.
    """
    for table in query.find_all(exp.Table):
        version = table.args.get("version")
        if version is None:
            continue
        table.meta[_AS_OF] = _time(version)
        table.set("version", None)


def get_time(table: exp.Table) -> InstantTime | None:
    """Return the completion time as of which the table is read, or None for its latest rows."""
    as_of: InstantTime | None = table.meta.get(_AS_OF)
    return as_of


def _time(version: exp.Expr) -> InstantTime:
    at = version.args.get("expression")
    is_time = str(version.this).upper() == "TIMESTAMP" and version.args.get("kind") == "AS OF"
    if not is_time or not isinstance(at, exp.Literal) or not at.is_string:
        raise StatementRefused(
            "a table is read as of a completion time: TIMESTAMP AS OF '2026-01-31T12:00:00Z'",
            given=version.sql(dialect="spark")[:80],
        )
    try:
        return moment(at.this)
    except InvalidInput as error:
        raise StatementRefused(error.message, **error.values) from error
