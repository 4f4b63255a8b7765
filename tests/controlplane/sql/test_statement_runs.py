"""A user's own statements: the history, and the end of one that runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.sql import runs
from controlplane.sql.errors import SqlCancelled
from controlplane.sql.limits import SqlLimits
from controlplane.sql.running import run_statement
from controlplane.sql.runs import cancellable, do_cancel_run, do_note_run, statement_runs
from tests.controlplane.sql_tables import SqlTables

ADDRESS = "/api/v1/sql/"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
PATIENT = SqlLimits(wall_s=250, cpu_s=250)
RUN = "run-0001"


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_history_has_done_and_refused_statements_of_the_user_alone(
    sql_tables: SqlTables, admin: User
) -> None:
    as_pia, as_admin = sign_in(sql_tables.pia), sign_in(admin)
    good, bad = "SELECT count(*) AS n FROM orders", "SELECT * FROM payroll"
    for statement in (good, bad):
        as_pia.post(ADDRESS, {"statement": statement}, "application/json")

    mine = as_pia.get("/api/v1/sql/runs/").json()

    assert [(run["statement"], run["result"], run["rows"]) for run in mine] == [
        (bad, "sql_table_unknown", 0),
        (good, "done", 1),
    ]
    assert as_admin.get("/api/v1/sql/runs/").json() == []
    assert good in as_pia.get("/sql").content.decode()
    assert good not in as_admin.get("/sql").content.decode()


def test_history_keeps_the_newest_statements(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "KEPT_MAX", 3)
    for number in range(5):
        do_note_run(f"SELECT {number}", by=admin, result="done", rows=1, took_ms=1)

    assert [run.statement[-1] for run in statement_runs(admin)] == ["4", "3", "2"]
    assert admin.statement_runs.count() == 3


def test_running_statement_is_cancelled_by_its_user_alone(
    admin: User, sql_tables: SqlTables
) -> None:
    started = threading.Event()

    def compute() -> None:
        with cancellable(RUN, by=admin) as is_cancelled:
            started.set()
            run_statement(ENDLESS, [], rows_max=1, limits=PATIENT, is_cancelled=is_cancelled)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(compute)
        assert started.wait(60)
        assert not do_cancel_run(RUN, by=sql_tables.pia)
        assert not running.done()
        assert do_cancel_run(RUN, by=admin)
        with pytest.raises(SqlCancelled):
            running.result(timeout=60)
    assert not do_cancel_run(RUN, by=admin)


def test_cancel_over_the_api_and_on_the_page(admin: User) -> None:
    client = sign_in(admin)

    with cancellable(RUN, by=admin) as is_cancelled:
        assert is_cancelled is not None
        assert not is_cancelled()
        answer = client.post("/api/v1/sql/cancel/", {"run_id": RUN}, "application/json")
        assert is_cancelled()
    again = client.post("/sql/cancel", {"run_id": RUN})
    wrong = client.post("/api/v1/sql/cancel/", {"run_id": "../../x"}, "application/json")

    assert answer.json() == {"was_running": True}
    assert again.json() == {"was_running": False}
    assert (wrong.status_code, wrong.json()["values"]["field"]) == (400, "run_id")
