"""Home: what needs a person over all tables, for whoever may see them, at a bounded cost."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.actions import do_record
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, MarkerCount
from controlplane.monitoring.models import Alert, Silence, TableHealth
from controlplane.operations.models import Operation
from controlplane.tables.models import MaskedColumn, Table
from controlplane.writers.models import Conflict
from tests.support.many_tables import many_tables
from tests.support.markup import compact
from tests.web.conftest import fill, instant
from web.audit_words import ACTIONS

ROOT = Path(__file__).parents[2]
QUERIES_MAX = 10
COMPRESSED_MAX = 60_000


def figures(client: Client) -> dict[str, str]:
    """The five numbers by their names."""
    page = compact(client.get("/").content.decode())
    return dict(re.findall(r"<dt>([^<]+)</dt>\s*<dd>\s*<a href=\"[^\"]+\">([^<]+)</a>", page))


def needs(client: Client) -> list[str]:
    """The causes that are listed, in order, by their keys."""
    part = client.get("/home/part").content.decode()
    panel = part.partition('id="needs-title"')[2].partition('id="writers-title"')[0]
    return re.findall(r'data-key="([^"]+)"', panel)


def read_count(client: Client, title: str) -> str:
    """Return the number in the head of a panel."""
    page = compact(client.get("/home/part").content.decode())
    panel = page.partition(f'<h2 id="{title}">')[2].partition("</h2>")[0]
    [number] = re.findall(r'class="count">([^<]+)<', panel)
    return str(number).strip()


def long_timeline(table: Table, compaction_s: float) -> None:
    """Of more commits than should be active, and a compaction that was planned so long ago."""
    now = timezone.now()
    TableHealth.objects.filter(table=table).update(verdicts={"archiving": "warn"})
    InstantRecord.objects.bulk_create(
        InstantRecord(
            table=table,
            requested_at=instant(now, seconds=800_000 + at),
            action="deltacommit",
            state="completed",
            completed_at=instant(now, seconds=799_999.5 + at),
        )
        for at in range(40)
    )
    InstantRecord.objects.create(
        table=table,
        requested_at=instant(now, seconds=compaction_s),
        action="compaction",
        state="requested",
    )


def test_five_numbers_say_what_needs_a_person_and_each_leads_there(
    as_viewer: Client, admin: User
) -> None:
    many_tables(20, timezone.now())
    Table.objects.filter(slug="lake-0003").update(synced_at=timezone.now() - timedelta(days=1))
    blocked = Table.objects.get(slug="lake-0005")
    long_timeline(blocked, compaction_s=900_000)
    long_timeline(Table.objects.get(slug="lake-0006"), compaction_s=9)
    failed = Operation.objects.create(table=blocked, kind="write", state="failed")

    page = compact(as_viewer.get("/").content.decode())

    assert figures(as_viewer) == {
        "Late tables": "1",
        "Suspect writers": "1",
        "Failed operations, 24 h": "1",
        "Firing alerts": "2",
        "Archiving blocked": "1",
    }
    assert read_count(as_viewer, "conflicts-title") == "2"
    for show in ("late", "conflicts", "suspects", "archiving"):
        assert f'href="/tables/?show={show}"' in page
    assert str(failed.pk) in as_viewer.get("/operations?state=unanswered").content.decode()


def test_what_was_done_again_or_committed_after_all_needs_nobody(
    as_viewer: Client, busy: Table
) -> None:
    failed = Operation.objects.create(table=busy, kind="write", state="failed")
    Operation.objects.create(table=busy, kind="write", state="succeeded", again_of=failed)
    InstantRecord.objects.create(
        table=busy, requested_at=instant(timezone.now(), seconds=2), action="deltacommit",
        state="completed", completed_at=instant(timezone.now(), seconds=1), writer_name="w",
    )  # fmt: skip

    assert figures(as_viewer)["Failed operations, 24 h"] == "0"
    assert "not retried" not in as_viewer.get("/").content.decode()
    assert str(failed.pk) not in as_viewer.get("/operations?state=unanswered").content.decode()


def test_the_worst_comes_first_and_many_of_a_kind_hide_no_other(as_viewer: Client) -> None:
    many_tables(100, timezone.now())
    Table.objects.filter(slug="lake-0007").update(sync_error="it is gone")
    broken = Operation.objects.create(
        table=Table.objects.get(slug="lake-0008"), kind="write", state="failed"
    )

    listed = needs(as_viewer)

    assert listed[0] == "unread-lake-0007"
    assert f"operation-{broken.pk}" in listed
    assert sum(key.startswith("alert-") for key in listed) == 3
    assert "and 7 more of this kind" in compact(as_viewer.get("/").content.decode())


def test_a_silenced_check_is_not_listed(as_viewer: Client, admin: User) -> None:
    [table] = many_tables(1, timezone.now())
    before = needs(as_viewer)
    for check in ("compaction", "suspect-writer", "event-conflict"):
        Silence.objects.create(
            table=table, check_name=check, until=timezone.now() + timedelta(hours=1), by="ada",
            reason="known",
        )  # fmt: skip

    assert len(before) == 3
    assert needs(as_viewer) == []


def test_a_viewer_of_one_table_sees_that_one_alone(nobody: User, admin: User) -> None:
    for slug in ("mine", "theirs"):
        fill(slug, admin)
        do_record(who="ada", what="operation.write", subject=slug, result="done")
    do_record(who="ada", what="user.create", subject="mine", result="done")
    Grant.objects.create(user=nobody, role="viewer", table=Table.objects.get(slug="mine"))
    client = Client()
    client.force_login(nobody)

    page = compact(client.get("/").content.decode())

    assert "/t/mine/" in page
    assert "theirs" not in page
    assert "started a write" in page
    assert "created a user" not in page
    for title in ("writers-title", "streams-title", "running-title"):
        assert read_count(client, title) == "1", title
    assert read_count(client, "conflicts-title") == "2"
    assert read_count(client, "markers-title") == "3"


@pytest.mark.slow
def test_home_costs_the_same_with_a_thousand_tables(as_viewer: Client) -> None:
    many_tables(1_000, timezone.now())

    with CaptureQueriesContext(connection) as queries:
        answer = as_viewer.get("/")

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
    assert len(gzip.compress(answer.content)) < COMPRESSED_MAX
    [first] = re.findall(r'id="hours-0"[^>]*>(.*?)</script>', answer.content.decode())
    assert (
        "<b>All tables</b>  4000 commits, 100 conflicts"
        in json.loads(first)["layout"]["title"]["text"]
    )


def test_every_hour_of_the_charts_stands_in_the_table_below(as_viewer: Client) -> None:
    many_tables(10, timezone.now())

    page = as_viewer.get("/").content.decode()

    twin = page.partition('aria-label="Commits and conflicts by hour"')[2].partition("</table>")[0]
    rows = re.findall(r"<td[^>]* class=\"num\"[^>]*>\s*(\d+)", twin)
    assert len(rows) == 24 * 6
    assert sum(map(int, rows[::6])) == 10 * 4


@pytest.mark.parametrize("query", ["q=trips", "namespace=sales", "after=a&q=x"])
def test_an_old_address_of_the_list_of_tables_leads_there(query: str, as_viewer: Client) -> None:
    assert as_viewer.get(f"/?{query}")["Location"] == f"/tables/?{query}"


def test_without_a_table_home_says_what_to_do(as_viewer: Client) -> None:
    assert b"No tables yet" in as_viewer.get("/").content


def test_panels_list_who_writes_loses_marks_and_joins(as_viewer: Client, busy: Table) -> None:
    """Each line leads to the page of the table that explains it."""
    page = compact(as_viewer.get("/home/part").content.decode())
    lost = busy.conflicts.get(kind="write").loser_instant
    pending = busy.heartbeats.get().instant

    for link in ("writers", f"conflicts/{lost}", f"markers/{pending}", "streams"):
        assert f'href="/t/ads/{link}"' in page, link
    assert "99.9%" in page
    assert re.search("of 1.000 rows", page)


def test_a_stream_whose_ordering_is_masked_shows_no_lag(as_viewer: Client, busy: Table) -> None:
    Table.objects.update(ordering="ts")
    shown = as_viewer.get("/api/v1/home/").json()["streams"]["rows"]
    MaskedColumn.objects.create(table=busy, path="ts")

    masked = as_viewer.get("/api/v1/home/").json()["streams"]["rows"]

    assert [row["lag_s"] is None for row in (*shown, *masked)] == [False, True]


def test_orphaned_markers_are_named(as_viewer: Client, busy: Table) -> None:
    MarkerCount.objects.create(
        table=busy, instant=instant(timezone.now(), seconds=900), kind="CREATE", count=4
    )

    assert read_count(as_viewer, "markers-title") == "7"
    assert "orphaned" in as_viewer.get("/home/part").content.decode()


def test_home_without_a_problem_says_so_and_shows_recent_actions(as_viewer: Client) -> None:
    many_tables(5, timezone.now())
    TableHealth.objects.update(verdicts={})
    for model in (Alert, Conflict, HeartbeatRecord):
        model.objects.all().delete()
    do_record(who="ada", what="service.schedule", subject="lake-0001", result="done")

    page = compact(as_viewer.get("/home/part").content.decode())

    assert "Nothing needs attention" in page
    assert "scheduled a service" in page
    assert "service.schedule" not in page
    for empty in ("No active writers", "No conflicts yet", "No pending markers", "No streams"):
        assert empty in page


def test_every_action_of_the_audit_has_words() -> None:
    """An action is `family.verb` in a string of the control plane."""
    named = re.compile(
        r'"((?:alert|approval|channel|columns|connection|demo|grant|group|health|marker_server'
        r"|operation|query|recovery|rows|schedule|service|sink|stream|table|token|user|writers)"
        r'\.[a-z_]+)"'
    )
    modules = (ROOT / "controlplane").rglob("*.py")
    files = (path for path in modules if path.parent.name != "descriptions")
    used = {name for file in files for name in named.findall(file.read_text())}
    no_actions = {"rows.parquet", "rows.py", "rows.read", "service.plan", "table.pk", "user.pk"}

    assert {name for name in used - no_actions if name not in ACTIONS} == set()


def test_home_is_in_the_api_and_its_python_client_as_on_the_page(
    as_viewer: Client, busy: Table
) -> None:
    board = as_viewer.get("/api/v1/home/").json()
    hours = as_viewer.get("/api/v1/home/hours/").json()

    assert board["writers_total"] == 1
    assert board["markers"]["total"] == 3
    assert [row["winner"] for row in board["conflicts"]] == ["w", "w"]
    assert [of["name"] for of in hours["tables"]] == ["All tables", "ads"]
    assert sum(hours["tables"][1]["commits"]) == 1
