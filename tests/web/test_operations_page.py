"""The list of all operations: its filters, its pages, what an open one waits for, and its cost."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.mirror.models import LockRecord
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.support.markup import compact
from web.pages import operations

QUERIES_MAX = 12
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
ROW = re.compile(r'<tr data-key="([0-9a-f-]{36})"')


@pytest.fixture
def ads(db: None) -> Table:
    return Table.objects.create(slug="ads", name="Ads", location="/lake/ads")


@pytest.fixture
def rides(db: None) -> Table:
    return Table.objects.create(slug="rides", name="Rides", location="/lake/rides")


def made(table: Table, *, at: datetime = NOON, **columns: Any) -> Operation:
    operation = Operation.objects.create(table=table, **{"kind": "write", **columns})
    Operation.objects.filter(pk=operation.pk).update(requested_at=at)
    return operation


def listed(client: Client, **query: str) -> list[str]:
    answer = client.get(f"/operations?{urlencode(query)}")
    assert answer.status_code == 200, answer.content
    return ROW.findall(answer.content.decode())


@pytest.fixture
def four(ads: Table, rides: Table, admin: User, viewer: User) -> dict[str, str]:
    operations = {
        "write": made(ads, requested_by=admin, state="running", message="driver launched"),
        "clean": made(
            rides, at=NOON + timedelta(hours=1), kind="service", service="clean", state="failed"
        ),
        "rollback": made(
            ads, at=NOON + timedelta(hours=2), kind="rollback", requested_by=viewer,
            state="succeeded", reason="Wrong FILE",
        ),
        "queued": made(rides, at=NOON + timedelta(hours=3), requested_by=admin),
    }  # fmt: skip
    return {name: str(operation.pk) for name, operation in operations.items()}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, "write queued rollback clean"),
        ({"table": "ads"}, "write rollback"),
        ({"kind": "write"}, "write queued"),
        ({"kind": "clean"}, "clean"),
        ({"state": "open"}, "queued write"),
        ({"state": "ended"}, "rollback clean"),
        ({"state": "failed"}, "clean"),
        ({"who": "AD"}, "write queued"),
        ({"who": "schedule"}, "clean"),
        ({"since": "2026-05-04T13:00"}, "queued rollback clean"),
        ({"since": "2026-05-04T13:00", "until": "2026-05-04T15:00+01:00"}, "clean"),
        ({"q": "file"}, "rollback"),
        ({"q": "LAUNCHED"}, "write"),
        ({"table": "ads", "who": "vera", "state": "failed"}, ""),
    ],
)
def test_each_filter_leaves_what_it_names(
    query: dict[str, str], names: str, four: dict[str, str], as_viewer: Client
) -> None:
    assert listed(as_viewer, **query) == [four[name] for name in names.split()]


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_every_operation_stands_on_one_page_and_the_filters_stay(
    state: str, ads: Table, as_viewer: Client
) -> None:
    opened = str(made(ads, at=NOON - timedelta(days=9), state="starting").pk)
    made_at = [NOON - timedelta(minutes=age) for age in range(120)]
    expected = [str(made(ads, at=at, state=state).pk) for at in made_at]

    shown, query = [], "?table=ads" + ("&state=open" if state == "running" else "")
    for _ in range(3):
        page = as_viewer.get(f"/operations{query}").content.decode()
        shown += ROW.findall(page)
        older = re.search(r'href="([^"]+)">Older', page)
        query = older.group(1).replace("&amp;", "&") if older else ""

    assert shown == ([*expected, opened] if state == "running" else [opened, *expected])
    assert query == ""


def test_an_open_operation_says_what_it_waits_for(
    ads: Table, rides: Table, as_viewer: Client
) -> None:
    now = timezone.now()
    LockRecord.objects.create(
        table=ads, provider="filesystem", is_held=True, writer="backfill", sampled_at=now,
        waiters=[{"instant": "20260504120000000", "writer": "ingest"}],
    )  # fmt: skip
    waiting = made(ads, at=now, state="running", instant="20260504120000000")
    clean = made(ads, at=now, kind="service", service="clean", state="running")
    behind = made(ads, at=now, kind="service", service="archive", sent_at=now)
    elsewhere = made(rides, at=now, kind="rollback", sent_at=now)
    unsent = made(rides, at=now - timedelta(minutes=3))

    page = compact(as_viewer.get("/operations").content.decode())

    assert 'waits for <a href="/t/ads/locks">the table lock, held by backfill</a>' in page
    link = f"/t/ads/operations/{clean.pk}"
    assert f'<a href="{link}">a worker, behind the clean of this table</a>' in page
    assert '<a href="/operations?state=running">a worker: another operation at work</a>' in page
    assert "waits for the queue, which has not taken its job yet" in page
    assert page.count("waits for") == 4
    assert {waiting.state, behind.state, elsewhere.state, unsent.state} == {"running", "queued"}


def test_a_job_that_nobody_takes_asks_for_a_worker(ads: Table, as_viewer: Client) -> None:
    long_ago = timezone.now() - timedelta(seconds=90)
    made(ads, at=long_ago, sent_at=long_ago)

    assert b"does one run for the queue engine?" in as_viewer.get("/operations").content


def test_a_long_list_of_open_operations_says_that_it_is_cut(ads: Table, as_viewer: Client) -> None:
    Operation.objects.bulk_create(Operation(table=ads, kind="write") for _ in range(51))

    page = as_viewer.get("/operations").content.decode()

    assert len(ROW.findall(page)) == 50
    assert 'List truncated. <a href="?state=open">' in page


@pytest.mark.slow
def test_the_page_costs_the_same_with_ten_thousand_operations(
    ads: Table, as_viewer: Client
) -> None:
    Operation.objects.bulk_create(
        Operation(table=ads, kind="write", state="queued" if at % 2 else "running")
        for at in range(10_000)
    )

    with CaptureQueriesContext(connection) as queries:
        page = as_viewer.get("/operations?q=nowhere&state=open")
    with CaptureQueriesContext(connection) as first:
        as_viewer.get("/operations")

    assert b"No matching operations" in page.content
    assert max(len(queries), len(first)) <= QUERIES_MAX, [one["sql"][:90] for one in first]


@pytest.mark.parametrize(
    ("typed", "leads_to"),
    [
        ("/operations/", "/operations"),
        ("/operations/?state=open", "/operations?state=open"),
        ("/t/ads/write/", "/t/ads/write"),
        ("/t/ads/operations/", "/t/ads/operations"),
        ("/t/ads/operations", "/operations?table=ads"),
        ("/operations/{id}", "/t/ads/operations/{id}"),
        ("/t/ads", "/t/ads/"),
    ],
)
def test_a_typed_address_leads_to_its_page(
    typed: str, leads_to: str, ads: Table, as_viewer: Client
) -> None:
    key = str(made(ads).pk)

    answer = as_viewer.get(typed.format(id=key))

    assert answer.status_code in (301, 302)
    assert answer["Location"] == leads_to.format(id=key)


def test_no_address_beside_a_page_is_redirected(ads: Table, as_viewer: Client) -> None:
    for path in ("/nothing/", "/t/nothing/operations/x/"):
        assert as_viewer.get(path).status_code == 404
    assert as_viewer.post("/operations/").status_code == 404
    assert b"Search for its name or id" in as_viewer.get("/nothing/").content


def test_a_tables_own_list_leads_into_it(ads: Table, as_viewer: Client) -> None:
    made(ads)

    assert b'href="/operations?table=ads"' in as_viewer.get("/t/ads/live").content


def test_export_that_is_cut_has_the_number_of_all_operations(
    ads: Table, rides: Table, as_admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(5):
        made(ads, at=NOON + timedelta(hours=hour), state="failed")
    made(rides)
    monkeypatch.setattr(operations, "EXPORT_ROWS_MAX", 2)
    monkeypatch.setattr(operations, "PAGE_ROWS_MAX", 1)

    cut = as_admin.get("/operations/export?as=json&table=ads")

    assert (cut.json()["total"], cut.json()["is_cut"], len(cut.json()["rows"])) == (5, True, 2)
    assert cut["X-Rows"] == "2 of 5"
    assert "-first-2-of-5." in cut["Content-Disposition"]
    whole = as_admin.get("/operations/export?as=json&table=rides").json()
    assert (whole["total"], whole["is_cut"]) == (1, False)
