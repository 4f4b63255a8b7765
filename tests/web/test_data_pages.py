"""Pages of rows: frames at once, rows behind them, each state said in words; SQL and its kept
queries.
"""

from __future__ import annotations

import html
import json
import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.sql.limits import SqlLimits
from controlplane.sql.models import SavedQuery
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from web.parts import HEADER

PART = {HEADER: "1"}


@pytest.fixture(autouse=True)
def patient_limits(settings: Settings) -> None:
    """A slow machine meets no other limit than the one that a test is about."""
    settings.SLUICE_SQL = SqlLimits(wall_s=250, cpu_s=250)


@pytest.fixture
def reader(trips: Table) -> User:
    """He sees the table, and reads its rows once a test lets him."""
    person = User.objects.create_user("rhea")
    Grant.objects.create(user=person, table=trips, role="viewer", granted_by="a test")
    return person


@pytest.fixture
def as_reader(reader: User) -> Client:
    client = Client()
    client.force_login(reader)
    return client


def text_of(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query, headers=PART)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_frame_comes_without_reading_a_row(as_admin: Client, trips: Table) -> None:
    for path in ("data", "data/row?key=1", "data/compare", "data/changes/20260101000000000"):
        answer = as_admin.get(f"/t/trips/{path}")
        assert answer.status_code == 200
        assert "data-part=" in answer.content.decode()

    assert not AuditEvent.objects.filter(what="rows.read").exists()


def test_rows_come_as_a_part_and_without_scripts_as_a_page(as_admin: Client, trips: Table) -> None:
    part = text_of(as_admin, "/t/trips/data/rows", where="id < 3", columns="city")
    whole = as_admin.get("/t/trips/data/rows", {"where": "id < 3"}).content.decode()

    assert "<!DOCTYPE" not in part
    assert "3 rows" in part
    assert part.count(">Oslo<") == 3
    assert "/t/trips/data/row?key=1&amp;partition=" in part
    assert "<!DOCTYPE" in whole
    assert whole.count(">Oslo<") == 3


@pytest.mark.slow
def test_more_rows_follow_by_a_link_with_the_same_filter(
    as_admin: Client, trips: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.pages.data.LIMITS", (2,))
    chosen = {"where": "id < 3", "limit": "2"}

    first = text_of(as_admin, "/t/trips/data/rows", **chosen)
    [link] = re.findall(r'href="(/t/trips/data\?[^"]+)">Next page<', first)
    query = dict(parse_qsl(urlsplit(html.unescape(link)).query))
    second = text_of(as_admin, "/t/trips/data/rows", **query)

    assert query.items() > chosen.items()
    assert "2 rows" in first
    assert "1 row<" in second
    assert "First page" in second
    assert ">Next page<" not in second
    assert "as of now" not in second


def test_bad_filter_is_said_at_its_field(as_admin: Client, trips: Table) -> None:
    part = text_of(as_admin, "/t/trips/data/rows", where="town = 'Oslo'")

    assert 'data-problem-of="where"' in part
    assert "Column town not found. Columns are id, city, ts." in part


@pytest.mark.slow
def test_no_right_and_no_rows_are_states_of_their_own(
    as_reader: Client, as_admin: Client, orders: Table
) -> None:
    refused = as_reader.get("/t/trips/data").content.decode()

    assert "No row access" in refused
    assert "data-part=" not in refused
    assert "No rows were written yet" in text_of(as_admin, "/t/orders/data/rows")


def test_masked_column_is_shown_as_masked_and_filters_nothing(
    as_reader: Client, reader: User, trips: Table
) -> None:
    RowGrant.objects.create(user=reader, table=trips, right="rows", granted_by="a test")
    MaskedColumn.objects.create(table=trips, path="city")

    shown = text_of(as_reader, "/t/trips/data/rows")
    refused = text_of(as_reader, "/t/trips/data/rows", where="city = 'Oslo'")

    assert "Oslo" not in shown
    assert shown.count(MASK) == 9
    assert 'data-problem-of="where"' in refused
    assert "is masked" in refused


@pytest.mark.slow
def test_history_commit_and_comparison_lead_to_each_other(as_admin: Client, trips: Table) -> None:
    newest = str(trips.instants.latest("completed_at").requested_at)

    history = text_of(as_admin, "/t/trips/data/row/versions", key="1")
    commit = text_of(as_admin, f"/t/trips/data/changes/{newest}/rows")
    moments = text_of(as_admin, "/t/trips/data/compare/rows")

    assert "3 versions" in history
    assert f"/t/trips/data/changes/{newest}" in history
    assert f"/t/trips/timeline?sel={newest}" in history
    assert "0 inserted, 9 updated, 0 deleted" in commit
    assert "0 inserted, 9 updated, 0 deleted" in moments
    assert "/t/trips/data/row?key=1&amp;partition=" in commit


@pytest.mark.slow
def test_key_that_nobody_wrote_says_so(as_admin: Client, trips: Table) -> None:
    assert "No versions of this key" in text_of(as_admin, "/t/trips/data/row/versions", key="77")


@pytest.mark.slow
def test_statement_runs_within_limits_and_errors_keep_it(as_admin: Client, trips: Table) -> None:
    statement = "SELECT city, count(*) AS n FROM trips GROUP BY city"
    answer = as_admin.post("/sql", {"statement": statement}, headers=PART).content.decode()
    wrong = as_admin.post("/sql", {"statement": "SELECT nothing FROM trips"}).content.decode()
    file = as_admin.post("/sql/export", {"statement": statement, "file": "csv"})

    assert "Oslo" in answer
    assert ">9<" in answer.replace("\n", "").replace(" ", "")
    assert "<!DOCTYPE" not in answer
    assert "SELECT nothing FROM trips</textarea>" in wrong
    assert "Request rejected" in wrong
    assert file.content.decode().splitlines() == ["city,n", "Oslo,9"]


@pytest.mark.slow
def test_saved_query_is_its_owners_alone_until_it_is_shared(
    as_admin: Client, as_reader: Client, trips: Table
) -> None:
    words = {"name": "Mine", "statement": "SELECT 1 AS one"}
    as_admin.post("/sql/saved", words)
    query = SavedQuery.objects.get()

    hidden = as_reader.get("/sql").content.decode()
    nowhere = as_reader.get(f"/sql?saved={query.pk}")
    as_admin.post("/sql/saved", {**words, "query": query.pk, "namespace": trips.namespace})
    shared = as_reader.get(f"/sql?saved={query.pk}").content.decode()
    over = as_reader.post(
        "/sql/saved", {**words, "query": query.pk, "statement": "SELECT 2 AS two"}
    )
    deleted = as_reader.post(f"/sql/saved/{query.pk}/delete", {"confirmed": "yes"})

    assert "Mine" not in hidden
    assert nowhere.status_code == 404
    assert "SELECT 1 AS one</textarea>" in shared
    assert (over.status_code, deleted.status_code) == (403, 403)
    assert SavedQuery.objects.get().statement == "SELECT 1 AS one"
    assert AuditEvent.objects.filter(what="query.save").count() == 2


def read_suggestions(client: Client) -> dict[str, list[str]]:
    """What the editor of SQL suggests: columns by table."""
    page = client.get("/sql").content.decode()
    [words] = re.findall(r'<script id="sql-words" type="application/json">(.*?)</script>', page)
    columns: dict[str, list[str]] = json.loads(words)
    return columns


def test_sql_suggests_names_of_readable_tables_and_unmasked_columns_alone(
    as_reader: Client, reader: User, as_admin: Client, trips: Table, orders: Table
) -> None:
    without_right = read_suggestions(as_reader)

    RowGrant.objects.create(user=reader, table=trips, right="rows", granted_by="a test")
    MaskedColumn.objects.create(table=trips, path="City")
    Grant.objects.create(user=reader, table=orders, role="viewer", granted_by="a test")
    without_mask = read_suggestions(as_admin)
    page = as_reader.get("/sql").content.decode()

    assert without_right == {}
    assert read_suggestions(as_reader) == {"trips": ["id", "ts"]}
    assert without_mask == {"orders": ["id", "ts", "city"], "trips": ["id", "city", "ts"]}
    assert ">city</span>" in page, "the list of tables names it"
    assert "orders" not in page


def test_query_that_cannot_be_kept_is_refused_at_its_field(as_admin: Client, trips: Table) -> None:
    words = {"name": "Mine", "statement": "SELECT 1 AS one"}
    as_admin.post("/sql/saved", words)

    twice = as_admin.post("/sql/saved", words)
    elsewhere = as_admin.post("/sql/saved", {**words, "name": "x", "namespace": "nowhere"})

    assert twice.status_code == elsewhere.status_code == 422
    assert "You already have a query with this name." in twice.content.decode()
    assert "where you see a table" in elsewhere.content.decode()
