"""Rows of a real PostgreSQL database: exact types, and queries that cannot change anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.postgres import postgres_cluster
from workers.bounded_process import LimitHit, ProcessLimits, WorkFailed
from workers.connections import DatabaseConnection, connection_to_json
from workers.errors import DatabaseFailed, InvalidInput
from workers.postgresql import DatabaseQuery, check_database, first_rows, reading, write_rows

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
SECRET = "hunter2-canary"
UUID = "6f1c1b2e-0000-4000-8000-000000000001"
ORDERS = f"""
CREATE TABLE orders (
    id bigint, small smallint, price numeric(12, 2), huge numeric(38, 0), at timestamptz,
    local timestamp, day date, is_paid bool, details jsonb, raw json, uid uuid, name varchar(20),
    code char(3), ratio real, share float8, bytes bytea
);
INSERT INTO orders VALUES
    (9223372036854775807, -2, 1234567890.10, {"9" * 38}, '2026-11-01 12:00:00.123456+02',
     '0001-01-01', '9999-12-31', true, '{{"a": [1, null]}}', '{{"b":  1}}', '{UUID}', 'Å', 'ab',
     0.1, 'NaN', '\\x00ff'),
    (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE odd (any_digits numeric, price numeric(4, 1), day date, at timestamptz, shape point);
INSERT INTO odd VALUES (1, 'NaN', 'infinity', 'infinity', '(1, 2)');
CREATE SEQUENCE numbers;
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres_cluster() as started:
        with psycopg.connect(started) as session:
            session.execute(ORDERS)
        yield started


@pytest.fixture
def erp(address: str) -> DatabaseConnection:
    parts = urlsplit(address)
    return DatabaseConnection(
        host="127.0.0.1",
        port=parts.port or 0,
        database="postgres",
        username="sluice",
        password=SECRET,  # The cluster asks for none.
        sslmode="disable",
    )


def read_rows(erp: DatabaseConnection, query: str = "", table: str = "") -> pa.Table:
    with reading(erp, DatabaseQuery(table=table, query=query), timeout_s=20) as rows:
        return pa.Table.from_batches(rows.batches, rows.schema)


def test_every_value_comes_exactly_with_the_type_of_its_column(
    erp: DatabaseConnection, tmp_path: Path
) -> None:
    orders = DatabaseQuery(table="public.orders")

    write_rows(
        erp,
        orders,
        tmp_path / "rows.parquet",
        rows_max=2,
        limits=ProcessLimits(file_bytes=1 << 20),
        environ=os.environ,
    )

    rows = pq.read_table(tmp_path / "rows.parquet")
    assert "; ".join(str(type_) for type_ in rows.schema.types) == (
        "int64; int32; decimal128(12, 2); decimal128(38, 0); timestamp[us, tz=UTC]; timestamp[us]; "
        "date32[day]; bool; string; string; string; string; string; float; double; binary"
    )
    first, second = rows.to_pylist()
    assert str(first.pop("share")) == "nan"
    assert first == {
        "id": 2**63 - 1,
        "small": -2,
        "price": Decimal("1234567890.10"),
        "huge": Decimal("9" * 38),
        "at": datetime(2026, 11, 1, 10, 0, 0, 123456, UTC),
        "local": datetime(1, 1, 1),  # noqa: DTZ001 - a timestamp without a time zone
        "day": date(9999, 12, 31),
        "is_paid": True,
        "details": '{"a": [1, null]}',
        "raw": '{"b":  1}',
        "uid": UUID,
        "name": "Å",
        "code": "ab ",
        "ratio": pa.scalar(0.1, pa.float32()).as_py(),
        "bytes": b"\x00\xff",
    }
    assert set(second.values()) == {1, None}


@pytest.mark.parametrize("column", ["any_digits", "price", "day", "at", "shape"])
def test_what_no_table_holds_exactly_is_refused(erp: DatabaseConnection, column: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_rows(erp, f"SELECT {column} FROM odd")

    assert refused.value.values["column"] == column


HOSTILE = (
    "DELETE FROM orders RETURNING *",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1) AS a; COMMIT; DELETE FROM orders; SELECT * FROM (SELECT 1",
    "SELECT 1) AS a; --",
    "SELECT nextval('numbers')",
    "SELECT * FROM orders FOR UPDATE",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM orders; END $$",
    "COPY orders TO PROGRAM 'id'",
    "SELECT 1) TO PROGRAM 'id' --",
    "SELECT 1 AS a, 2 AS a",
    "SELECT lo_from_bytea(0, 'x')",
    "VACUUM",
    "",
)


@pytest.mark.parametrize("query", HOSTILE)
def test_a_query_changes_nothing(erp: DatabaseConnection, address: str, query: str) -> None:
    """Threat T33: one statement, in a transaction that nothing can make writable."""
    with pytest.raises(InvalidInput):
        read_rows(erp, query)

    with psycopg.connect(address) as session:
        assert session.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]
        assert session.execute("SELECT is_called FROM numbers").fetchall() == [(False,)]


def test_a_query_may_use_what_a_select_may(erp: DatabaseConnection) -> None:
    query = "WITH a AS (SELECT 'a%s {} ' || id AS b FROM orders) SELECT * FROM a ORDER BY b; -- end"
    with pytest.raises(InvalidInput):  # A semicolon begins another statement.
        read_rows(erp, query)

    rows = read_rows(erp, query.replace(";", ""))

    assert rows["b"].to_pylist() == ["a%s {} 1", f"a%s {{}} {2**63 - 1}"]


def test_a_long_query_is_ended_by_the_database(erp: DatabaseConnection) -> None:
    with (
        pytest.raises(InvalidInput, match="took too long"),
        reading(erp, DatabaseQuery(query="SELECT pg_sleep(60)::text"), timeout_s=0.2) as rows,
    ):
        list(rows.batches)


def test_the_database_ends_a_query_whose_process_was_killed(
    erp: DatabaseConnection, address: str
) -> None:
    query = "SELECT pg_sleep(100)::text AS a"
    job = {"settings": connection_to_json(erp), "table": "", "query": query, "file": ""}
    limits = {"memory_bytes": 1 << 30, "cpu_s": 60, "wall_s": 90, "file_bytes": 1 << 20}
    child = subprocess.Popen(
        [sys.executable, "-m", "workers.postgresql"], cwd=ROOT, stdin=subprocess.PIPE
    )
    assert child.stdin is not None
    child.stdin.write(json.dumps({**job, **limits, "rows_max": 1, "answer_bytes": 1}).encode())
    child.stdin.close()
    running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'FETCH%' AND state = 'active'"
    with psycopg.connect(address, autocommit=True) as session:
        while not session.execute(running).fetchall():
            assert child.poll() is None

        child.kill()

        child.wait()
        while session.execute(running).fetchall():
            pass  # The test's own limit of time ends this.


def test_the_first_rows_come_without_the_others_and_too_many_are_refused(
    erp: DatabaseConnection, tmp_path: Path
) -> None:
    many = DatabaseQuery(
        query="SELECT n, repeat('x', 1000) AS text FROM generate_series(1, 1000000) n"
    )

    rows, is_whole = first_rows(erp, many, rows_max=150, environ=os.environ)

    assert (rows.num_rows, is_whole) == (150, False)
    with pytest.raises(LimitHit, match="more than 1000 rows"):
        write_rows(
            erp,
            many,
            tmp_path / "rows.parquet",
            rows_max=1_000,
            limits=ProcessLimits(file_bytes=1 << 20),
            environ=os.environ,
        )


def test_rows_that_are_too_wide_end_a_process_with_a_limit_and_not_the_caller(
    erp: DatabaseConnection, tmp_path: Path
) -> None:
    wide = DatabaseQuery(query="SELECT repeat('x', 50000000) AS a FROM generate_series(1, 4)")

    with pytest.raises(LimitHit, match="memory"):
        write_rows(
            erp,
            wide,
            tmp_path / "rows.parquet",
            rows_max=9,
            limits=ProcessLimits(memory_bytes=64 << 20, answer_bytes=1 << 30, file_bytes=1 << 30),
            environ=os.environ,
        )


def test_a_database_that_is_not_reached_is_named_without_the_password(
    erp: DatabaseConnection,
) -> None:
    check_database(erp)
    with pytest.raises(DatabaseFailed, match=r"127\.0\.0\.1:1/postgres") as refused:
        check_database(replace(erp, port=1))
    with pytest.raises(DatabaseFailed, match="SSL") as insecure:
        check_database(replace(erp, sslmode="verify-full"))
    with pytest.raises(WorkFailed, match="stranger") as unknown:
        first_rows(
            replace(erp, username="stranger"),
            DatabaseQuery(table="orders"),
            rows_max=1,
            environ=os.environ,
        )

    assert SECRET not in f"{refused.value}{insecure.value}{unknown.value}"
