"""Statements that PostgreSQL plans once for each connection, and from then on only answers.

Django has parameters put into the text, so that each statement is a new one to the database: of our
short ones, planning was two thirds of what they cost there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

from django.db import connection
from django.db.backends.utils import CursorWrapper
from psycopg import Cursor


class _Preparing(Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **_options: Any) -> _Preparing:
        return super().execute(query, params, prepare=True)


def prepared_cursor() -> AbstractContextManager[CursorWrapper]:
    """A cursor of this thread's connection, for statements whose text is asked often. With SQLite
    like any other; it prepares nothing where SLUICE_DATABASE_PREPARED says so.
    """
    if connection.vendor != "postgresql":
        return connection.cursor()
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    # As Django makes its own: watched, counted, and with its exceptions.
    with connection.wrap_database_errors:
        own = _Preparing(connection.connection)
        return cast("CursorWrapper", connection._prepare_cursor(own))  # type: ignore[attr-defined]  # Django's own way
