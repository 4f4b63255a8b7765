"""Rows of a PostgreSQL database as Arrow: one query in a read-only transaction, in bounded memory.

The database decides what a query may do; its text is not inspected. The query is a part of one
SELECT, sent as a single statement, so that nothing but a query fits there; and the transaction was
read-only before it took its snapshot, which nothing inside it can change.

`write_rows` and `first_rows` run this module as a process with limits. It takes its job on standard
input, so that the password is in no command line, no environment and no file.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from uuid import UUID

import certifi
import psycopg
import pyarrow as pa
from psycopg import IsolationLevel, sql
from psycopg.types.json import set_json_loads
from psycopg.types.numeric import Int4BinaryLoader, Int8BinaryLoader

from workers.bounded_process import (
    ProcessAnswer,
    ProcessLimits,
    cut_rows,
    failure,
    run_bounded,
    say,
    take_limits,
    write_file,
)
from workers.connections import DatabaseConnection, connection_from_json, connection_to_json
from workers.errors import DatabaseFailed, InvalidInput, LakehouseError

CONNECT_TIMEOUT_S: Final = 10
TEST_TIMEOUT_S: Final = 5
QUERY_CHARS_MAX: Final = 20_000
_NO_FILE: Final = f"{os.devnull}/none"
_CERTIFICATES_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 8 << 20
_FIRST_BATCH_ROWS: Final = 100
_BATCH_ROWS_MAX: Final = 20_000
_DECIMAL_DIGITS_MAX: Final = 38
_DAY_MICROSECONDS: Final = 86_400_000_000
_EPOCH_DAY, _FIRST_DAY, _LAST_DAY = (
    (day - date(2000, 1, 1)).days for day in (date(1970, 1, 1), date.min, date.max)
)
_TABLE: Final = re.compile(r"(?:([^.\x00]{1,63})\.)?([^.\x00]{1,63})")

_SETTINGS: Final = """
    SELECT pg_catalog.set_config(wanted.name, wanted.setting, true)
    FROM (VALUES
        ('statement_timeout', %(timeout)s),
        ('lock_timeout', '30s'),
        ('TimeZone', 'UTC'),
        ('cursor_tuple_fraction', '1'),
        -- So that the server ends the query when this process was killed.
        ('client_connection_check_interval', '2s')
    ) AS wanted (name, setting)
    JOIN pg_catalog.pg_settings AS known ON known.name = wanted.name
    WHERE wanted.name <> 'client_connection_check_interval'
        OR pg_catalog.version() !~* 'visual c|msvc|mingw'
"""
"""For this transaction. A setting that an older server does not know is left out."""


@dataclass(frozen=True, slots=True)
class DatabaseQuery:
    """The rows that a source requests: a table's, or a query's."""

    table: str = ""
    """`schema.name`, or a name on the search path, spelt as the database shows it."""
    query: str = ""

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.query):
            raise InvalidInput("a source of kind postgresql needs a table or a query", key="table")
        if self.table and not _TABLE.fullmatch(self.table):
            raise InvalidInput("write the table as schema.name", key="table")
        if len(self.query) > QUERY_CHARS_MAX or "\x00" in self.query:
            raise InvalidInput(
                f"the query must be a text of {QUERY_CHARS_MAX} characters at most", key="query"
            )

    def statement(self) -> sql.Composed:
        """Return the SELECT that reads the rows."""
        if self.table:
            names = [name for name in _TABLE.fullmatch(self.table).groups() if name]  # type: ignore[union-attr]
            return sql.SQL("SELECT * FROM {}").format(sql.Identifier(*names))
        # On lines of its own: the query may end with a comment.
        query = self.query.strip().removesuffix(";")
        return sql.SQL("SELECT * FROM (\n{}\n) AS rows_of_source").format(sql.SQL(query))


@dataclass(frozen=True, slots=True)
class DatabaseRows:
    """Rows that are fetched as `batches` is read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def reading(
    connection: DatabaseConnection, query: DatabaseQuery, *, timeout_s: float
) -> Iterator[DatabaseRows]:
    """Run the query in a read-only transaction of one snapshot, and end it with the block.

    Raises InvalidInput for a query that the database refuses or does not answer in `timeout_s`, a
    column whose type no table holds exactly (named), and a value that Arrow cannot hold;
    DatabaseFailed where the database is not reached.
    """
    with _connect(connection, CONNECT_TIMEOUT_S) as session, _errors(connection):
        session.read_only = True
        session.isolation_level = IsolationLevel.REPEATABLE_READ
        set_json_loads(_as_text, session)
        # Days and microseconds as they come: not every one of them is a date of Python.
        session.adapters.register_loader("date", Int4BinaryLoader)
        session.adapters.register_loader("timestamp", Int8BinaryLoader)
        session.adapters.register_loader("timestamptz", Int8BinaryLoader)
        # The first SELECT takes the snapshot: from now on the transaction cannot be made writable.
        session.execute(_SETTINGS, {"timeout": f"{int(timeout_s * 1000)}ms"})
        with session.cursor(name="rows", binary=True) as cursor:
            cursor.execute(query.statement())
            schema = pa.schema(
                [(column.name, _type(column)) for column in cursor.description or ()]
            )
            _check_names(schema.names)
            yield DatabaseRows(schema, _batches(cursor, schema))


def write_rows(
    connection: DatabaseConnection,
    query: DatabaseQuery,
    file: Path,
    *,
    rows_max: int,
    limits: ProcessLimits,
    environ: Mapping[str, str],
) -> None:
    """Write the query's rows to a Parquet file. Raises LimitHit, WorkFailed."""
    _run(connection, query, limits, environ, rows_max=rows_max, file=str(file))


def first_rows(
    connection: DatabaseConnection,
    query: DatabaseQuery,
    *,
    rows_max: int,
    environ: Mapping[str, str],
) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether these are all. Raises LimitHit, WorkFailed."""
    limits = ProcessLimits(file_bytes=_CERTIFICATES_BYTES)
    answer = _run(connection, query, limits, environ, rows_max=rows_max, file="")
    return answer.rows, not answer.head["cut_by"]


def _run(
    connection: DatabaseConnection,
    query: DatabaseQuery,
    limits: ProcessLimits,
    environ: Mapping[str, str],
    **more: Any,
) -> ProcessAnswer:
    job = {"settings": connection_to_json(connection), **asdict(query), **more}
    return run_bounded("workers.postgresql", job, limits=limits, work="the query", environ=environ)


def check_database(connection: DatabaseConnection) -> None:
    """Sign in and run `SELECT 1`. Raises DatabaseFailed, without secrets, with what to do."""
    with _connect(connection, TEST_TIMEOUT_S) as session, _errors(connection):
        session.execute(f"SET LOCAL statement_timeout = '{TEST_TIMEOUT_S}s'")
        session.execute("SELECT 1")


@contextmanager
def _connect(
    connection: DatabaseConnection, timeout_s: int
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect without the password file, certificates and services of this process's user, and
    without prepared statements: a pooler may be in between.
    """
    with NamedTemporaryFile("w", suffix=".pem") as certificates:
        authority = ssl.get_default_verify_paths().cafile or certifi.where()
        if connection.ca_certificate:
            certificates.write(connection.ca_certificate)
            certificates.flush()
            authority = certificates.name
        try:
            session = psycopg.connect(
                host=connection.host,
                port=connection.port,
                dbname=connection.database,
                user=connection.username,
                password=connection.password or None,
                passfile=_NO_FILE,
                sslmode=connection.sslmode,
                sslrootcert=authority if connection.sslmode.startswith("verify-") else _NO_FILE,
                sslcertmode="disable",
                gssencmode="disable",
                connect_timeout=timeout_s,
                keepalives_idle=30,
                application_name="sluice",
                client_encoding="UTF8",
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise DatabaseFailed(
                "the database did not let the connection in; check the address, the user name, the "
                "password and sslmode",
                address=connection.shown_address,
                reason=_first_line(error, connection),
            ) from error
    with session:
        yield session


@contextmanager
def _errors(connection: DatabaseConnection) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise InvalidInput(
            "the database ended the query: it took too long, or it was cancelled",
            reason=_first_line(error, connection),
        ) from error
    except psycopg.OperationalError as error:
        raise DatabaseFailed(
            "the database ended the connection; try again",
            address=connection.shown_address,
            reason=_first_line(error, connection),
        ) from error
    except psycopg.Error as error:
        if "out of memory for query result" in str(error):  # In this process, not the server.
            raise MemoryError from error
        raise InvalidInput(
            "the database refused the query", reason=_first_line(error, connection)
        ) from error


def _first_line(error: psycopg.Error, connection: DatabaseConnection) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:300] if lines else type(error).__name__
    return text.replace(connection.password, "•••") if connection.password else text


def _as_text(content: str | bytes) -> str:
    return content if isinstance(content, str) else bytes(content).decode()


_TYPES: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int2": pa.int32(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "name": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.binary(),
    "json": pa.string(),
    "jsonb": pa.string(),
    "uuid": pa.string(),
}
_OIDS: Final = {psycopg.adapters.types[name].oid: name for name in (*_TYPES, "numeric")}


def _type(column: psycopg.Column) -> pa.DataType:
    """Return the Arrow type of a column. Raises InvalidInput for a type that no table holds
    exactly.
    """
    name = _OIDS.get(column.type_code, "")
    if name == "numeric":
        return _decimal(column)
    if not name:
        raise InvalidInput(
            "no table holds a column of this type exactly: cast it in a query, such as "
            f'"{column.name[:60]}"::text, or leave it out',
            column=column.name[:200],
            type=column.type_display[:60],
        )
    return _TYPES[name]


def _decimal(column: psycopg.Column) -> pa.DataType:
    precision, scale = column.precision, column.scale
    if precision is None or scale is None:
        raise InvalidInput(
            "a numeric column without a precision may hold any number of digits: cast it in a "
            f'query, such as "{column.name[:60]}"::numeric(38, 6)',
            column=column.name[:200],
        )
    if not 0 <= scale <= precision <= _DECIMAL_DIGITS_MAX:
        raise InvalidInput(
            f"a table holds decimals of at most {_DECIMAL_DIGITS_MAX} digits, of which none or "
            "some are behind the point: cast the column in a query",
            column=column.name[:200],
            type=column.type_display,
        )
    return pa.decimal128(precision, scale)


def _check_names(names: list[str]) -> None:
    if not names:
        raise InvalidInput("the query has no columns", key="query")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(
            "two columns of the query have one name: name them with AS", columns=twice
        )


def _batches(
    cursor: psycopg.ServerCursor[tuple[Any, ...]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield batches of some 8 MB: the width of its rows decides how many the next batch has."""
    row_count = _FIRST_BATCH_ROWS
    while rows := cursor.fetchmany(row_count):
        columns = zip(schema, zip(*rows, strict=True), strict=True)
        arrays = [_array(field, values) for field, values in columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        yield batch
        row_bytes = max(1, batch.nbytes // batch.num_rows)
        row_count = min(2 * row_count, _BATCH_ROWS_MAX, max(1, _BATCH_BYTES // row_bytes))


def _array(field: pa.Field[Any], values: Sequence[Any]) -> pa.Array[Any]:
    first = next((value for value in values if value is not None), None)
    try:
        if isinstance(first, UUID):
            values = [None if value is None else str(value) for value in values]
        elif pa.types.is_date(field.type):
            values = _since_1970(values, 1)
        elif pa.types.is_timestamp(field.type):
            values = _since_1970(values, _DAY_MICROSECONDS)
        array: pa.Array[Any] = pa.array(values, field.type)
        return array
    except (pa.ArrowException, OverflowError) as error:  # Such as NaN in a numeric.
        raise InvalidInput(
            "a value of the column has no exact place in a table: leave it out in a query",
            column=field.name[:200],
            type=str(field.type),
        ) from error


def _since_1970(values: Sequence[int | None], day: int) -> list[int | None]:
    """Convert days, or parts of them, since 2000. Raises OverflowError for infinity, and outside of
    the years 1 to 9999.
    """
    least, most = _FIRST_DAY * day, (_LAST_DAY + 1) * day
    if any(value is not None and not least <= value < most for value in values):
        raise OverflowError
    return [None if value is None else value - _EPOCH_DAY * day for value in values]


def main() -> None:
    """Execute one job: put all rows into its `file`, or answer with the first ones."""
    job = json.load(sys.stdin)
    take_limits(job)
    try:
        connection = connection_from_json(DatabaseConnection.KIND, job["settings"])
        assert isinstance(connection, DatabaseConnection)
        query = DatabaseQuery(table=job["table"], query=job["query"])
        with reading(connection, query, timeout_s=job["wall_s"]) as rows:
            if job["file"]:
                write_file(job, rows.schema, rows.batches)
                return
            reader = pa.RecordBatchReader.from_batches(rows.schema, rows.batches)
            cut = cut_rows(reader, rows_max=job["rows_max"], bytes_max=job["answer_bytes"])
        say({"cut_by": cut.cut_by}, cut.rows)
    except MemoryError:
        say({"failed": "memory"})
    except (LakehouseError, pa.ArrowException) as error:
        say(failure(error))


if __name__ == "__main__":
    main()
