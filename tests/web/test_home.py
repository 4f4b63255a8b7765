"""Home: what needs a person over all tables, for whoever may see them, at a bounded cost."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.actions import do_record
from controlplane.mirror.models import InstantRecord
from controlplane.monitoring.models import Silence, TableHealth
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.support.many_tables import many_tables
from tests.support.markup import compact
from tests.web.conftest import fill, instant

QUERIES_MAX = 12
COMPRESSED_MAX = 60_000


def figures(client: Client) -> dict[str, str]:
    """The five numbers by their names."""
    page = compact(client.get("/").content.decode())
    return dict(re.findall(r"<dt>([^<]+)</dt>\s*<dd>\s*<a href=\"[^\"]+\">([^<]+)</a>", page))


def needs(client: Client) -> list[str]:
    """The causes that are listed, in order, by their keys."""
    part = client.get("/home/part").content.decode()
    return re.findall(r'data-key="([^"]+)"', part.partition('id="running-title"')[0])


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
        "Open conflicts, 24 h": "2",
        "Suspect writers": "1",
        "Failed operations, 24 h": "1",
        "Archiving blocked": "1",
    }
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

    counted = figures(as_viewer)

    assert counted["Failed operations, 24 h"] == "0"
    assert counted["Open conflicts, 24 h"] == "0"
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
    assert "operation.write" in page
    assert "user.create" not in page
    assert figures(client)["Open conflicts, 24 h"] == "2"


@pytest.mark.slow
def test_home_costs_the_same_with_a_thousand_tables(as_viewer: Client) -> None:
    many_tables(1_000, timezone.now())

    with CaptureQueriesContext(connection) as queries:
        answer = as_viewer.get("/")

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
    assert len(gzip.compress(answer.content)) < COMPRESSED_MAX
    assert "100 conflicts" in compact(answer.content.decode())


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
