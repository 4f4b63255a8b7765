"""Rows of a table for a person: filters, moments, masks, limits, files and the audit."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.mirror.sync import sync_table
from controlplane.sql.limits import SqlLimits
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from tests.controlplane.sql_tables import CANARY, ORDERS, SqlTables
from workers import open_table

ORDERS_ROWS = "/api/v1/tables/orders/rows/"
PEOPLE_ROWS = "/api/v1/tables/people/rows/"


@pytest.fixture(autouse=True)
def patient_limits(settings: Settings) -> None:
    """A slow machine meets no other limit than the one that a test is about."""
    settings.SLUICE_SQL = SqlLimits(wall_s=250, cpu_s=250)


@pytest.fixture
def as_pia(sql_tables: SqlTables) -> Client:
    client = Client()
    client.force_login(sql_tables.pia)
    return client


def append(table: Table, *rows: dict[str, object]) -> str:
    handle = open_table(table.location)
    outcome = handle.write(pa.Table.from_pylist(list(rows), schema=handle.schema()))
    return str(outcome.instant)


def completed_at(table: Table, instant: str) -> str:
    done = open_table(table.location).table.timeline().find(instant)
    assert done is not None
    return str(done.completed_at)


def looks() -> list[dict[str, object]]:
    events = AuditEvent.objects.filter(what="rows.read").order_by("pk")
    return [event.details for event in events]


def test_rows_are_chosen_by_a_filter_and_cut_at_the_limit(as_pia: Client) -> None:
    everything = as_pia.get(ORDERS_ROWS).json()
    oslo = as_pia.get(ORDERS_ROWS, {"where": "city = 'Oslo'", "columns": "amount,id"}).json()
    cut = as_pia.get(ORDERS_ROWS, {"limit": 2}).json()

    assert len(everything["rows"]) == 4
    assert (everything["is_cut"], everything["cut_by"]) == (False, "")
    assert [column["name"] for column in oslo["columns"]] == ["amount", "id"]
    assert sorted(row["cells"] for row in oslo["rows"]) == [[4.5, 3], [10.5, 1]]
    assert {row["key"] for row in oslo["rows"]} == {"1", "3"}
    assert len(cut["rows"]) == 2
    assert (cut["is_cut"], cut["cut_by"]) == (True, "rows")
    assert [look["where"] for look in looks()] == ["", "city = 'Oslo'", ""]


def test_sorted_rows_have_pages_and_a_hidden_column_sorts_too(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    down: dict[str, str | int] = {"order_by": "-amount", "columns": "id", "limit": 3}

    first = as_pia.get(ORDERS_ROWS, down).json()
    second = as_pia.get(ORDERS_ROWS, {**down, "cursor": first["next_cursor"]}).json()
    other = as_pia.get(ORDERS_ROWS, {**down, "order_by": "id", "cursor": first["next_cursor"]})
    up = as_pia.get(ORDERS_ROWS, {"order_by": "amount", "columns": "amount"}).json()

    amounts = [row["cells"][0] for row in up["rows"]]
    values = [amount for amount in amounts if amount is not None]
    ids = [row["cells"][0] for row in [*first["rows"], *second["rows"]]]
    assert values == sorted(values)
    assert amounts == [*values, *[None] * (len(amounts) - len(values))]
    assert len(ids) == 4 == len(set(ids))
    assert [column["name"] for column in first["columns"]] == ["id"]
    assert (other.status_code, other.json()["code"]) == (422, "rows_gone")
    assert looks()[0]["order_by"] == "amount"


@pytest.mark.parametrize(
    ("table", "order", "status", "words"),
    [
        (PEOPLE_ROWS, "ssn", 403, "is masked"),
        (PEOPLE_ROWS, "-home", 403, "is masked"),
        (ORDERS_ROWS, "town", 400, "no such column"),
    ],
)
def test_rows_are_not_sorted_by_a_masked_or_unknown_column(
    as_pia: Client, table: str, order: str, status: int, words: str
) -> None:
    answer = as_pia.get(table, {"order_by": order})

    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_plan_has_null_pcts_and_what_a_filter_leaves_out_and_no_mask_is_counted(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    append(sql_tables.people, {"id": 8, "city": None, "ssn": None, "home": None})

    plan = as_pia.get(f"{PEOPLE_ROWS}plan/").json()
    none = as_pia.get(f"{PEOPLE_ROWS}plan/", {"where": "id > 1000000"}).json()
    refused = as_pia.get(f"{PEOPLE_ROWS}plan/", {"where": f"ssn = '{CANARY}'"})

    columns = {column["name"]: column for column in plan["columns"]}
    assert plan["slices_read"] == plan["slices"] > 0
    assert columns["city"]["null_pct"] == 100 * columns["city"]["nulls"] / plan["rows"]
    assert columns["ssn"]["nulls"] is columns["ssn"]["null_pct"] is None
    assert columns["home"]["nulls"] is None
    assert none["slices_read"] < none["slices"]
    assert set(none["left_out"]) == {"statistics of id"}
    assert refused.status_code == 403
    assert CANARY not in json.dumps(plan)
    assert len(looks()) == 2


@pytest.mark.slow
def test_pages_of_rows_are_of_the_first_pages_moment_and_say_that_a_commit_came(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    for number in range(20, 23):
        append(
            sql_tables.orders, {"id": number, "city": "Bodø", "amount": 1.0, "day": "2026-01-02"}
        )
    whole = [row["key"] for row in as_pia.get(ORDERS_ROWS).json()["rows"]]

    first = as_pia.get(ORDERS_ROWS, {"limit": 3}).json()
    append(sql_tables.orders, {"id": 1, "city": "Tromsø", "amount": 9.5, "day": "2026-01-01"})
    append(sql_tables.orders, {"id": 40, "city": "Alta", "amount": 2.0, "day": "2026-01-01"})
    pages = [first]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(as_pia.get(ORDERS_ROWS, {"limit": 3, "cursor": cursor}).json())
    other = as_pia.get(ORDERS_ROWS, {"where": "id > 1", "cursor": first["next_cursor"]})
    broken = as_pia.get(ORDERS_ROWS, {"cursor": "20260101000000000.3"})

    assert [row["key"] for page in pages for row in page["rows"]] == whole
    assert [len(page["rows"]) for page in pages] == [3, 3, 1]
    assert [page["is_older"] for page in pages] == [False, True, True]
    assert first["as_of"] is None
    assert {page["as_of"] for page in pages[1:]} == {first["next_cursor"].partition(".")[0]}
    assert "Tromsø" not in json.dumps([page["rows"] for page in pages], ensure_ascii=False)
    assert (other.status_code, other.json()["code"]) == (422, "rows_gone")
    assert (broken.status_code, broken.json()["code"]) == (400, "invalid_request")
    assert [look.get("after") for look in looks()][:4] == [None, None, 3, 6]


@pytest.mark.slow
def test_rows_as_of_a_commit_are_those_that_stood_then(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    table = sql_tables.orders
    first = completed_at(table, str(table.instants.latest("completed_at").requested_at))
    append(table, {"id": 1, "city": "Kiel", "amount": 1.0, "day": "2026-03-01"})

    then = as_pia.get(ORDERS_ROWS, {"as_of": first, "where": "id = 1"}).json()
    now = as_pia.get(ORDERS_ROWS, {"where": "id = 1"}).json()

    assert then["rows"][0]["cells"][1] == "Oslo"
    assert now["rows"][0]["cells"][1] == "Kiel"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ({"where": "city = "}, "where", "a text was expected"),
        ({"where": "town = 'Oslo'"}, "where", "predicate names no column"),
        ({"where": "amount > 'much'"}, "where", "no value of its type"),
        ({"columns": "id,town"}, "columns", "table has no such column"),
        ({"as_of": "yesterday"}, "as_of", "a time is 17 digits or ISO 8601"),
    ],
)
def test_what_does_not_fit_the_table_is_refused_with_its_field(
    as_pia: Client, query: dict[str, str], field: str, words: str
) -> None:
    answer = as_pia.get(ORDERS_ROWS, query)

    problem = answer.json()
    assert answer.status_code == 400
    assert problem["code"] == "rows_refused"
    assert problem["values"]["field"] == field
    assert words in problem["detail"]


def test_masked_columns_are_marks_and_choose_no_row(as_pia: Client) -> None:
    shown = as_pia.get(PEOPLE_ROWS)
    refused = as_pia.get(PEOPLE_ROWS, {"where": f"ssn = '{CANARY}'"})

    assert CANARY not in shown.content.decode()
    names = [column["name"] for column in shown.json()["columns"] if column["is_masked"]]
    assert names == ["ssn", "home"]
    assert [row["cells"][2] for row in shown.json()["rows"]] == [MASK, MASK]
    assert shown.json()["columns"][2]["type"] == "string"
    assert refused.status_code == 403
    assert "is masked" in refused.json()["detail"]


def test_whoever_may_not_read_rows_is_told_what_to_ask_for(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    RowGrant.objects.filter(user=sql_tables.pia, table=sql_tables.orders).delete()

    for path in (
        ORDERS_ROWS,
        f"{ORDERS_ROWS}history/?key=1",
        f"{ORDERS_ROWS}export/",
        f"{ORDERS_ROWS}differences/?earlier=20200101000000000&later=20210101000000000",
        "/api/v1/tables/orders/instants/20200101000000000/changes/",
    ):
        answer = as_pia.get(path)
        assert answer.status_code == 403, path
        assert "needs the right to read rows" in answer.json()["detail"]
    assert as_pia.get("/api/v1/tables/payroll/rows/").status_code == 404
    assert looks() == []


def test_history_of_a_row_names_commits_writers_and_changed_columns(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    table = sql_tables.orders
    first = str(table.instants.latest("completed_at").requested_at)
    second = append(table, {"id": 1, "city": "Kiel", "amount": 10.5, "day": "2026-01-01"})

    answer = as_pia.get(f"{ORDERS_ROWS}history/", {"key": "1"}).json()

    assert [(one["instant"], one["op"], one["changed"]) for one in answer["versions"]] == [
        (second, "updated", ["city"]),
        (first, "inserted", []),
    ]
    assert answer["versions"][0]["before"]["city"] == "Oslo"
    assert answer["versions"][0]["after"]["city"] == "Kiel"
    assert answer["is_cut"] is False


def test_history_names_the_user_who_requested_a_delete(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    table = sql_tables.orders
    outcome = open_table(table.location).delete(predicate="id = 1")
    sync_table(table)
    record = table.instants.get(requested_at=str(outcome.instant))
    operation = table.operations.create(
        kind="service", service="delete", state="succeeded", requested_by=sql_tables.pia
    )
    type(record).objects.filter(pk=record.pk).update(operation_ref=str(operation.pk))

    (deleted, inserted) = as_pia.get(f"{ORDERS_ROWS}history/", {"key": "1"}).json()["versions"]
    page = as_pia.get(
        "/t/orders/data/row/versions", {"key": "1"}, headers={"X-Sluice-Part": "1"}
    ).content.decode()

    assert (deleted["op"], deleted["operation_type"]) == ("deleted", "delete")
    assert (deleted["requested_by"], deleted["operation"]) == ("pia", str(operation.pk))
    assert (inserted["op"], inserted["requested_by"], inserted["operation"]) == ("inserted", "", "")
    assert "by user <strong>pia</strong>" in page
    assert f"/operations/{operation.pk}" in page


@pytest.mark.slow
def test_masked_column_is_never_among_what_changed(as_pia: Client, sql_tables: SqlTables) -> None:
    table = sql_tables.people
    first = completed_at(table, str(table.instants.latest("completed_at").requested_at))
    home = {"street": CANARY + "-2", "zip": 150}
    second = append(table, {"id": 1, "city": "Oslo", "ssn": CANARY + "-1", "home": home})

    history = as_pia.get(f"{PEOPLE_ROWS}history/", {"key": "1"})
    commit = as_pia.get(f"/api/v1/tables/people/instants/{second}/changes/")
    moments = as_pia.get(
        f"{PEOPLE_ROWS}differences/",
        {"earlier": first, "later": completed_at(table, second)},
    )

    for answer in (history, commit, moments):
        assert answer.status_code == 200, answer.content
        assert CANARY not in answer.content.decode()
    newest = history.json()["versions"][0]
    assert (newest["op"], newest["changed"]) == ("written", [])
    assert newest["after"]["ssn"] == MASK
    assert newest["after"]["home"] == {"street": MASK, "zip": 150}
    (row,) = commit.json()["rows"]
    assert (row["op"], row["changed"]) == ("updated", [])
    assert moments.json()["rows"] == []


@pytest.mark.slow
def test_masked_key_is_shown_nowhere_and_nothing_is_asked_by_it(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    MaskedColumn.objects.create(table=sql_tables.orders, path="id")
    newest = str(sql_tables.orders.instants.latest("completed_at").requested_at)

    history = as_pia.get(f"{ORDERS_ROWS}history/", {"key": "1"})
    rows = as_pia.get(ORDERS_ROWS).json()["rows"]
    commit = as_pia.get(f"/api/v1/tables/orders/instants/{newest}/changes/").json()["rows"]

    assert history.status_code == 403
    assert {row["key"] for row in [*rows, *commit]} == {MASK}
    assert {row["after"]["id"] for row in commit} == {MASK}


@pytest.mark.slow
def test_commit_and_two_moments_show_before_and_after(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    table = sql_tables.orders
    first = completed_at(table, str(table.instants.latest("completed_at").requested_at))
    second = append(
        table,
        {"id": 1, "city": "Kiel", "amount": 10.5, "day": "2026-01-01"},
        {"id": 9, "city": "Lund", "amount": 1.0, "day": "2026-01-01"},
    )
    later = completed_at(table, second)

    commit = as_pia.get(f"/api/v1/tables/orders/instants/{second}/changes/").json()
    moments = as_pia.get(
        f"{ORDERS_ROWS}differences/", {"earlier": first, "later": later, "limit": "1"}
    ).json()

    assert {(row["op"], row["key"]) for row in commit["rows"]} == {
        ("updated", "1"),
        ("inserted", "9"),
    }
    assert len(moments["rows"]) == 1
    assert (moments["is_cut"], moments["cut_by"]) == (True, "rows")
    assert (
        as_pia.get(f"{ORDERS_ROWS}differences/", {"earlier": later, "later": first}).json()[
            "values"
        ]["field"]
        == "later"
    )


def test_changes_of_a_commit_are_counted_by_file_group_and_shown_for_one(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    table = sql_tables.orders
    second = append(
        table,
        *({"id": at, "city": "Kiel", "amount": 1.0, "day": "2026-01-01"} for at in range(1, 30)),
    )
    address = f"/api/v1/tables/orders/instants/{second}/changes/"

    whole = as_pia.get(address).json()
    parts = [
        as_pia.get(address, {"file_id": group["file_id"], "partition": group["partition"]}).json()
        for group in whole["groups"]
    ]
    page = as_pia.get(f"/t/orders/data/changes/{second}/rows").content.decode()

    ops = [row["op"] for row in whole["rows"]]
    assert whole["group_count"] == len(whole["groups"]) > 0
    assert whole["writer_counts"] == {
        "inserts": ops.count("inserted"),
        "updates": ops.count("updated"),
        "deletes": 0,
    }
    assert sorted(row["key"] for part in parts for row in part["rows"]) == sorted(
        row["key"] for row in whole["rows"]
    )
    assert [len(part["rows"]) for part in parts] == [
        group["inserts"] + group["updates"] for group in whole["groups"]
    ]
    assert set(whole["changed_columns"]) <= {"city", "amount", "day"}
    assert whole["changed_columns"]["city"] > 0
    assert whole["stream_columns"] == []
    assert "File groups" in page
    assert whole["groups"][0]["file_id"] in page


@pytest.mark.slow
def test_files_of_rows_hold_what_is_shown_and_no_formula(
    as_pia: Client, sql_tables: SqlTables
) -> None:
    append(sql_tables.orders, {"id": 8, "city": "=1+1", "amount": -2.5, "day": "2026-01-01"})
    query: dict[str, str] = {"where": "id = 8"}

    as_csv = as_pia.get(f"{ORDERS_ROWS}export/", query)
    as_json = as_pia.get(f"{ORDERS_ROWS}export/", {**query, "file_format": "jsonl"})
    parquet = as_pia.get(f"{ORDERS_ROWS}export/", {**query, "file_format": "parquet"})

    expected = {"id": 8, "city": "=1+1", "amount": -2.5, "day": "2026-01-01"}
    assert list(csv.reader(io.StringIO(as_csv.content.decode()))) == [
        ["id", "city", "amount", "day"],
        ["8", "'=1+1", "-2.5", "2026-01-01"],
    ]
    assert [json.loads(line) for line in as_json.content.splitlines()] == [expected]
    assert pq.read_table(io.BytesIO(parquet.content)).to_pylist() == [expected]
    assert 'filename="orders-rows.parquet"' in parquet["Content-Disposition"]
    assert [look["file"] for look in looks()] == ["csv", "jsonl", "parquet"]


@pytest.mark.slow
def test_admin_sees_all_of_every_row(admin: User, sql_tables: SqlTables) -> None:
    client = Client()
    client.force_login(admin)

    assert CANARY in client.get(PEOPLE_ROWS).content.decode()
    assert len(client.get("/api/v1/tables/payroll/rows/").json()["rows"]) == len(ORDERS)
