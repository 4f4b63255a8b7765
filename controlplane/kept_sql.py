"""Queries whose SQL is made once: Django takes longer to write most of ours than PostgreSQL takes
to answer them.

PostgreSQL also says what rows are, in a digest of their text: of rows that it sends, and of rows
that it does not send, for whoever has them already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from controlplane.prepared import prepared_cursor

_Row = TypeVar("_Row")
_DIGEST: Final = (
    "(SELECT encode(sha256(convert_to(COALESCE(string_agg(listed::text, ','), ''), 'UTF8')), 'hex')"
    " FROM listed)"
)
"""The text of a row quotes what would make two different rows look alike."""
_OF_NO_ROWS: Final = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class _Made:
    sql: str
    """Empty for a query that can have no rows, which Django does not even write."""
    parameters: tuple[object, ...]
    slots: tuple[int | None, ...]
    """Of each parameter the argument that goes there; None for one that stays as it is."""
    converters: tuple[tuple[int, Any, Any], ...]
    """(column, what is called on its values, its expression)."""
    columns: tuple[str, ...]
    """Of a model that its rows become; empty where they stay tuples."""

    def filled(self, arguments: Sequence[object]) -> list[Any]:
        pairs = zip(self.slots, self.parameters, strict=True)
        return [known if slot is None else arguments[slot] for slot, known in pairs]

    def converted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.converters:
            return row
        columns = list(row)
        for at, converts, expression in self.converters:
            for convert in converts:
                columns[at] = convert(columns[at], expression, connection)
        return tuple(columns)


class KeptQuery(Generic[_Row]):
    """What `make` gives, of which only arguments change and neither words nor their number.

    `make` is called once for each kind of database, with `marks`: a text or a number in the place
    of each argument, as it is, which is nowhere else in the query. Whatever decides about the shape
    of the query, such as whether a filter is there, belongs into `make`; each shape is a query of
    its own.
    """

    def __init__(self, make: Callable[..., QuerySet[Any, Any]], *marks: object) -> None:
        self._make = make
        self._marks = marks
        self._made: dict[str, _Made] = {}

    def rows(self, *arguments: object) -> list[_Row]:
        """Tuples where the query says `values_list`, else objects of its model."""
        made = self._for_this_database()
        return self._shown(made, self._fetched(made, made.sql, arguments))

    def first(self, *arguments: object) -> _Row | None:
        rows = self.rows(*arguments)
        return rows[0] if rows else None

    def rows_and_digest(self, *arguments: object) -> tuple[list[_Row], str]:
        """The rows and the digest of these very rows, by one statement; it is empty where the
        database makes none.
        """
        if connection.vendor != "postgresql":
            return self.rows(*arguments), ""
        made = self._for_this_database()
        sql = f"WITH listed AS ({made.sql}) SELECT listed.*, {_DIGEST} FROM listed"  # noqa: S608 # Django's
        fetched = self._fetched(made, sql, arguments)
        digest = fetched[0][-1] if fetched else _OF_NO_ROWS
        return self._shown(made, [row[:-1] for row in fetched]), digest

    def digest_sql(self, *arguments: object) -> tuple[str, list[Any]]:
        """An expression and its parameters: the digest of the rows that there are now."""
        made = self._for_this_database()
        if not made.sql:
            return "%s", [_OF_NO_ROWS]
        return f"(WITH listed AS ({made.sql}) SELECT {_DIGEST})", made.filled(arguments)

    def _fetched(self, made: _Made, sql: str, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
        assert len(arguments) == len(self._marks), (arguments, self._marks)
        if not made.sql:
            return []
        with prepared_cursor() as cursor:
            cursor.execute(sql, made.filled(arguments))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _shown(self, made: _Made, fetched: list[tuple[Any, ...]]) -> list[_Row]:
        rows: list[Any] = [made.converted(row) for row in fetched] if made.converters else fetched
        if made.columns:
            model = self._model
            return [model.from_db(connection.alias, made.columns, row) for row in rows]
        return rows

    def _for_this_database(self) -> _Made:
        made = self._made.get(connection.vendor)
        if made is None:
            made = self._made[connection.vendor] = self._make_once()
        return made

    def _make_once(self) -> _Made:
        query = self._make(*self._marks).query
        self._model: Any = query.model
        compiler = query.get_compiler(connection=connection)
        try:
            sql, parameters = compiler.as_sql()
        except EmptyResultSet:
            return _Made("", (), (), (), ())
        slots = tuple(self._slot(parameter) for parameter in parameters)
        assert {*range(len(self._marks))} <= {*slots}, (sql, parameters)
        selected = [column for column, _, _ in compiler.select]
        converters = compiler.get_converters(selected)
        return _Made(
            sql=sql,
            parameters=tuple(parameters),
            slots=slots,
            converters=tuple((at, *pair) for at, pair in converters.items()),
            columns=_columns(query, selected),
        )

    def _slot(self, parameter: object) -> int | None:
        """A mark is known by being equal and of the same type: True is no 1 here."""
        for number, mark in enumerate(self._marks):
            if type(mark) is type(parameter) and mark == parameter:
                return number
        return None


def digests(*wanted: tuple[KeptQuery[Any], Sequence[object]]) -> tuple[str, ...]:
    """Digests of the rows that each query would give now, for its arguments; one statement. Each is
    empty where the database makes none.
    """
    if connection.vendor != "postgresql":
        return ("",) * len(wanted)
    parts = [query.digest_sql(*arguments) for query, arguments in wanted]
    parameters = [parameter for _, of_part in parts for parameter in of_part]
    with prepared_cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(sql for sql, _ in parts)}", parameters)
        [row] = cursor.fetchall()
    return tuple(map(str, row))


def _columns(query: Any, selected: Sequence[Any]) -> tuple[str, ...]:
    if query.values_select or query.annotation_select:
        return ()
    return tuple(column.target.attname for column in selected)
