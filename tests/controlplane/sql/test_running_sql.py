"""SQL of a person over tables of the register: answers, refusals, limits and the audit."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.sql.actions import do_run_sql
from controlplane.sql.errors import SqlBusy, SqlFailed, SqlLimitHit, SqlTableUnknown
from controlplane.sql.limits import SqlLimits
from controlplane.sql.running import run_statement
from controlplane.sql.slots import slot
from controlplane.tables.models import RowGrant
from tests.controlplane.sql_tables import CANARY, SqlTables
from workers import open_table

ADDRESS = "/api/v1/sql/"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
ROWS_WITHOUT_END = "SELECT a.id FROM orders a " + "".join(
    f"CROSS JOIN orders {name} " for name in "bcdefghijklmno"
)


HUGE_JOIN = (
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) "
    "SELECT sum(sqrt(a.n * b.n) * sin(c.n)) FROM n a CROSS JOIN n b CROSS JOIN n c"
)
"""Of 10^9 rows."""
WIDE_ROW = "SELECT repeat('x', 9000000)"
PATIENT = SqlLimits(wall_s=250, cpu_s=250)
"""So that a slow machine meets no other limit than the one that a test is about."""


@pytest.fixture
def as_pia(sql_tables: SqlTables) -> Client:
    client = Client()
    client.force_login(sql_tables.pia)
    return client


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_answer_has_columns_with_types_rows_masks_and_its_time(as_pia: Client) -> None:
    answer = as_pia.post(
        ADDRESS,
        {"statement": "SELECT id, Ssn, home FROM people ORDER BY id", "limit": 1},
        "application/json",
    ).json()

    assert answer["columns"] == [
        {"name": "id", "type": "bigint", "is_masked": False},
        {"name": "ssn", "type": "string", "is_masked": True},
        {"name": "home", "type": "struct<street: string,zip: int>", "is_masked": True},
    ]
    assert answer["rows"] == [[1, "••••", {"street": "••••", "zip": 150}]]
    assert (answer["is_cut"], answer["cut_by"], answer["tables"]) == (True, "rows", ["people"])
    assert answer["took_ms"] > 0


def test_tables_are_read_as_of_a_time_next_to_their_latest_rows(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    handle = open_table(sql_tables.orders.location)
    then = str(handle.table.timeline().instants[-1].completed_at)
    row = {"id": 1, "city": "Kiel", "amount": 1.0, "day": "2026-01-01"}
    handle.write(pa.Table.from_pylist([row], schema=handle.schema()))
    statement = (
        f"SELECT o.city AS was, n.city FROM orders TIMESTAMP AS OF '{then}' o "
        "JOIN default.orders n ON n.id = o.id WHERE o.id = 1"
    )

    answer = as_pia.post(ADDRESS, {"statement": statement}, "application/json").json()
    masked = as_pia.post(
        ADDRESS,
        {"statement": f"SELECT ssn FROM people TIMESTAMP AS OF '{then}' LIMIT 1"},
        "application/json",
    )

    assert answer["rows"] == [["Oslo", "Kiel"]]
    assert answer["tables"] == ["orders"]
    assert CANARY not in masked.content.decode()


@pytest.mark.parametrize(
    ("statement", "status", "code"),
    [
        ("SELECT * FROM orders VERSION AS OF 3", 400, "sql_refused"),
        ("SELECT * FROM orders TIMESTAMP AS OF 'yesterday'", 400, "sql_refused"),
        ("SELECT * FROM orders TIMESTAMP AS OF current_date()", 400, "sql_refused"),
        ("SELECT * FROM payroll TIMESTAMP AS OF '2026-01-01T00:00:00Z'", 404, "sql_table_unknown"),
        (
            "WITH o AS (SELECT 1 AS n) SELECT * FROM o TIMESTAMP AS OF '2026-01-01T00:00:00Z'",
            *(400, "sql_refused"),
        ),
        ("SELECT * FROM read_csv('x.csv')", 400, "sql_refused"),
        ("SELECT * FROM 'x.parquet'", 404, "sql_table_unknown"),
        ("SELECT reflect('a', 'b')", 400, "sql_refused"),
        ("SELECT * FROM payroll", 404, "sql_table_unknown"),
        ("SELECT * FROM no_such_table", 404, "sql_table_unknown"),
        ("SELECT * FROM default.payroll", 404, "sql_table_unknown"),
        ("SELECT id FROM people WHERE ssn = '1'", 403, "sql_masked_column"),
        ("", 400, "invalid_request"),
    ],
)
def test_refusal_is_a_problem_with_its_code_and_starts_no_process(
    statement: str, status: int, code: str, as_pia: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen", None)

    answer = as_pia.post(ADDRESS, {"statement": statement}, "application/json")

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert CANARY not in answer.content.decode()


def test_table_of_others_is_refused_in_the_words_for_one_that_there_is_not(
    as_pia: Client,
) -> None:
    answers = [
        as_pia.post(ADDRESS, {"statement": f"SELECT * FROM {name}"}, "application/json").json()
        for name in ("payroll", "pay_roll")
    ]

    assert answers[0]["detail"] == answers[1]["detail"]
    assert [answer["values"] for answer in answers] == [{"table": "payroll"}, {"table": "pay_roll"}]


def test_table_whose_rows_he_may_not_read_is_said_so(sql_tables: SqlTables) -> None:
    RowGrant.objects.filter(table=sql_tables.orders).delete()

    with pytest.raises(PermissionDenied, match="right to read rows"):
        do_run_sql("SELECT count(*) FROM orders", by=sql_tables.pia)


@pytest.mark.slow
def test_audit_holds_who_asked_what_of_which_tables_and_how_many_rows(
    sql_tables: SqlTables,
) -> None:
    statement = "SELECT o.id, p.ssn FROM orders o JOIN people p ON o.id = p.id" + " " * 5_000
    do_run_sql(statement, by=sql_tables.pia)
    with pytest.raises(SqlTableUnknown):
        do_run_sql("SELECT * FROM payroll", by=sql_tables.pia)
    do_run_sql("SELECT 1", by=sql_tables.pia)

    events = AuditEvent.objects.filter(what="rows.read").order_by("pk")

    assert [(event.who, event.object, event.result) for event in events] == [
        ("pia", "orders", "done"),
        ("pia", "people", "done"),
        ("pia", "", "refused"),
        ("pia", "", "done"),
    ]
    assert [event.details["rows"] for event in events] == [2, 2, 0, 1]
    assert events[0].details["statement"] == statement[:2_000]
    assert (events[2].details["why"], events[2].details["statement"]) == (
        "sql_table_unknown",
        "SELECT * FROM payroll",
    )


@pytest.mark.slow
def test_what_the_engine_cannot_compute_is_said_without_a_path(sql_tables: SqlTables) -> None:
    with pytest.raises(SqlFailed) as failed:
        do_run_sql("SELECT regexp_extract(city, '(', 1) FROM orders", by=sql_tables.pia)

    assert "missing )" in str(failed.value.values["why"])


@pytest.mark.parametrize(
    ("statement", "limit", "limits"),
    [
        ("SELECT length(repeat('x', 2000000000))", "memory", PATIENT),
        pytest.param(ENDLESS, "time", replace(PATIENT, wall_s=2), marks=pytest.mark.slow),
        pytest.param(ENDLESS, "cpu", replace(PATIENT, cpu_s=2), marks=pytest.mark.slow),
        pytest.param(HUGE_JOIN, "time", replace(PATIENT, wall_s=2), marks=pytest.mark.slow),
        pytest.param(WIDE_ROW, "answer_bytes", PATIENT, marks=pytest.mark.slow),
    ],
)
def test_limit_ends_the_statement_and_says_which_it_was(
    statement: str, limit: str, limits: SqlLimits, sql_tables: SqlTables, settings: Settings
) -> None:
    settings.SLUICE_SQL = limits
    before = children()

    with pytest.raises(SqlLimitHit) as hit:
        do_run_sql(statement, by=sql_tables.pia)

    assert hit.value.values["limit"] == limit
    assert children() <= before


@pytest.mark.slow
def test_rows_beyond_the_limit_are_cut_off_at_once(sql_tables: SqlTables) -> None:
    answer = do_run_sql(ROWS_WITHOUT_END, by=sql_tables.pia, rows_max=7)

    assert (len(answer.rows), answer.cut_by) == (7, "rows")


@pytest.mark.slow
def test_bytes_beyond_the_limit_are_cut_off_at_a_row(
    sql_tables: SqlTables, settings: Settings
) -> None:
    settings.SLUICE_SQL = SqlLimits(answer_bytes=100_000)

    answer = do_run_sql("SELECT repeat('x', 30000) FROM orders", by=sql_tables.pia)

    assert (len(answer.rows), answer.is_cut, answer.cut_by) == (3, True, "bytes")


def test_only_so_many_statements_run_at_once(sql_tables: SqlTables, settings: Settings) -> None:
    settings.SLUICE_SQL = limits = SqlLimits(per_user=1, per_node=2)
    home, pia = Path(settings.SLUICE_HOME), sql_tables.pia

    with (
        slot(home, str(pia.pk), limits),
        pytest.raises(SqlBusy, match="1 running statements or reads"),
    ):
        do_run_sql("SELECT 1", by=pia)
    with (
        slot(home, "another", limits),
        slot(home, "third", limits),
        pytest.raises(SqlBusy, match="on this node"),
    ):
        do_run_sql("SELECT 1", by=pia)
    assert do_run_sql("SELECT 1", by=pia).rows == [[1]]


@pytest.mark.slow
def test_process_has_neither_secrets_nor_files_of_the_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SLUICE_SECRET_KEY", "SLUICE_DATABASE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, CANARY)
    (tmp_path / "canary.txt").write_text(CANARY)
    ends = threading.Event()
    seen: set[str] = set()

    def look() -> None:
        while not ends.wait(0.05):
            for pid in children():
                with suppress(psutil.Error, OSError):
                    process = psutil.Process(pid)
                    if "controlplane.sql.child" in process.cmdline():
                        seen.add(json.dumps(process.environ()))
                        seen.update(file.path for file in process.open_files())

    looking = threading.Thread(target=look)
    looking.start()
    with (tmp_path / "canary.txt").open() as canary_file:
        os.set_inheritable(canary_file.fileno(), True)
        with pytest.raises(SqlLimitHit):
            run_statement(ENDLESS, [], rows_max=1, limits=SqlLimits(wall_s=2))
    ends.set()
    looking.join()

    assert any("PATH" in text for text in seen)
    assert [text for text in seen if CANARY in text or "canary.txt" in text] == []


@pytest.mark.slow
def test_an_admin_sees_masked_columns_and_may_compute_on_them(
    sql_tables: SqlTables, admin: User
) -> None:
    answer = do_run_sql("SELECT max(ssn) FROM people", by=admin)

    assert answer.rows == [[CANARY]]
    assert not answer.columns[0].is_masked
