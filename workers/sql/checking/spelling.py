"""The text of a checked tree for an engine, and the parser's own failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from workers.sql.checking.refusals import StatementRefused


def spelled(query: exp.Query, dialect: str) -> str:
    """One statement without comments. Raises StatementRefused for what the dialect has no words
    for.
    """
    with refusing("the statement cannot be spelled for the engine"):
        return query.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE)


@contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """What sqlglot fails at is refused by this sentence. Of a tree that nobody thought of it
    raises what Python happens to raise.
    """
    try:
        yield
    except RecursionError as error:
        raise StatementRefused("the statement is nested too deeply") from error
    except SqlglotError as error:
        first, *_ = str(error).splitlines() or [""]
        raise StatementRefused(sentence, why=first[:300]) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StatementRefused(sentence) from error
