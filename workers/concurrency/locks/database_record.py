"""The lock's record as a row of a database: PostgreSQL or SQLite.

Each change is one statement with the expected content of the row, so the database itself decides
which process was first. The table `sluice_table_lock` is created when it is missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from workers.concurrency.locks.record import (
    LockState,
    RecordBusy,
    RecordStore,
    StoredLock,
    decode_lock,
)
from workers.errors import StorageFailed, WriteOutcomeUnknown
from workers.installation import check_imports
from workers.options.lock_options import LockUrl

if TYPE_CHECKING:
    import psycopg

_CREATE = "CREATE TABLE IF NOT EXISTS sluice_table_lock (lock_key TEXT PRIMARY KEY, record TEXT)"
_SELECT = "SELECT record FROM sluice_table_lock WHERE lock_key = {0}"
_INSERT = (
    "INSERT INTO sluice_table_lock (lock_key, record) VALUES ({0}, {0}) ON CONFLICT DO NOTHING"
)
_UPDATE = "UPDATE sluice_table_lock SET record = {0} WHERE lock_key = {0} AND record = {0}"
_WAIT_MAX_S = 5
_SQLITE_WAIT_MAX_S = 0.1
"""The wait for another process to end its change, which takes milliseconds unless it stalled.
Callers with more time retry.
"""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CERTAIN = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors of SQLite after which nothing was changed."""


class _Done(NamedTuple):
    rows: list[tuple[Any, ...]]
    changed: int


_NOTHING = _Done([], 0)
_NO_TABLE = _Done([], -1)


def database_record(url: LockUrl, key: str) -> RecordStore:
    """Return the record in the row `key` of the database at `url`: SQLite by that scheme, else
    PostgreSQL. Nothing is opened before the first call.
    """
    return SqliteRecord(url, key) if url.scheme == "sqlite" else PostgresRecord(url, key)


class _RowRecord:
    """A record in one row, by the statements above."""

    is_lasting = True
    _key: str

    @property
    def place(self) -> str:
        raise NotImplementedError

    def read(self) -> StoredLock | None:
        return _parse_record(self._run(_SELECT, self._key), self.place)

    def create(self, state: LockState) -> bool:
        return _insert(self._run, self._key, state)

    def replace(self, state: LockState, tag: str) -> bool:
        return self._run(_UPDATE, _text(state), self._key, tag, is_change=True).changed == 1

    def _run(self, statement: str, *values: str, is_change: bool = False) -> _Done:
        raise NotImplementedError


class PostgresRecord(_RowRecord):
    """A row of PostgreSQL over one connection, which is opened again after it was lost."""

    def __init__(self, url: LockUrl, key: str) -> None:
        self._url = url
        self._key = key
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def place(self) -> str:
        """The address and key of the record, without the password."""
        return f"{self._url.redacted} {self._key}"

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, statement: str, *values: str, is_change: bool = False) -> _Done:
        with check_imports():
            import psycopg
            from psycopg import errors

        connection = self._connect()
        try:
            cursor = connection.execute(statement.format("%s").encode(), values)
            return _done(cursor)
        except errors.UndefinedTable:
            return _NO_TABLE
        except (errors.DuplicateTable, errors.UniqueViolation):
            return _NOTHING  # Another process created the table concurrently.
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            if is_change:
                raise WriteOutcomeUnknown(
                    "the database of the table lock was lost while it was being changed",
                    **self._describe_error(error),
                ) from error
            raise StorageFailed(
                "the database of the table lock was lost", **self._describe_error(error)
            ) from error
        except psycopg.Error as error:
            raise StorageFailed(
                "the database of the table lock refused", **self._describe_error(error)
            ) from error

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        if self._connection is not None and not self._connection.closed:
            return self._connection
        try:
            self._connection = psycopg.connect(
                self._url.full,
                autocommit=True,
                connect_timeout=_WAIT_MAX_S,
                tcp_user_timeout=_WAIT_MAX_S * 1000,
                application_name="sluice lock",
            )
            self._connection.execute(f"SET statement_timeout = {_WAIT_MAX_S * 1000}".encode())
        except psycopg.Error as error:
            self.close()
            raise StorageFailed(
                "the database of the table lock is out of reach; see that it runs, and that "
                "address, user and password are right",
                **self._describe_error(error),
            ) from error
        return self._connection

    def _describe_error(self, error: Exception) -> dict[str, object]:
        return {"database": self._url.redacted, "reason": self._url.redact(str(error))}


class SqliteRecord(_RowRecord):
    """A file on a disk of this machine: SQLite's own locks do not hold over a network."""

    def __init__(self, url: LockUrl, key: str) -> None:
        self._path = "/" + unquote(urlsplit(url.full).path).lstrip("/")
        self._key = key

    @property
    def place(self) -> str:
        """The path and key of the record."""
        return f"sqlite:///{self._path} {self._key}"

    def read(self) -> StoredLock | None:
        """Return the record; None if the file does not exist, which reading does not create."""
        file = Path(self._path)
        if file.parent.is_dir() and not file.exists():
            return None  # Looking makes no file.
        return super().read()

    def close(self) -> None:
        """Do nothing: a connection lasts one call, because SQLite's belong to one thread."""

    def _run(self, statement: str, *values: str, is_change: bool = False) -> _Done:
        try:
            with closing(self._connect()) as connection:
                cursor = connection.execute(statement.format("?"), values)
                return _done(cursor)
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return _NO_TABLE
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            facts: dict[str, object] = {"database": self._path, "reason": str(error)}
            if code in _BUSY:
                raise RecordBusy(
                    "another process is at work, or was stopped inside a change of the lock",
                    **facts,
                ) from error
            if is_change and code not in _CERTAIN:
                raise WriteOutcomeUnknown(
                    "the database of the table lock failed while it was being changed", **facts
                ) from error
            raise StorageFailed(
                "the database of the table lock failed; see that its directory exists and may be "
                "written",
                **facts,
            ) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_SQLITE_WAIT_MAX_S, isolation_level=None)


def _insert(run: Callable[..., _Done], key: str, state: LockState) -> bool:
    """Insert the record. Creates the table only if it is missing: an account may have no permission
    to create it.
    """
    done = run(_INSERT, key, _text(state), is_change=True)
    if done is _NO_TABLE:
        run(_CREATE)
        done = run(_INSERT, key, _text(state), is_change=True)
    return done.changed == 1


def _done(cursor: psycopg.Cursor[tuple[Any, ...]] | sqlite3.Cursor) -> _Done:
    if cursor.description is None:
        return _Done([], cursor.rowcount)
    return _Done(cursor.fetchall(), 0)


def _text(state: LockState) -> str:
    return state.encode().decode()


def _parse_record(selection: _Done, place: str) -> StoredLock | None:
    """Return the stored lock, whose text is also its tag: no two holdings ever write the same."""
    if not selection.rows:
        return None
    text = str(selection.rows[0][0])
    return StoredLock(decode_lock(text.encode(), place), text)
