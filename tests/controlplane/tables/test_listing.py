"""The list of tables: every one of them once, page after page, with sums over all pages, and a
number of queries that does not grow with it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from controlplane.accounts.models import Grant
from controlplane.errors import InvalidRequest
from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.tables.listing import Wanted, tables_named, tables_page
from controlplane.tables.models import Table

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def tables(db: None) -> list[Table]:
    """Seven, of which every second stands in a namespace of its own kind."""
    made = [
        Table.objects.create(
            slug=f"t{number}",
            name=f"Table {number}",
            namespace="sales" if number % 2 else "default",
            location=f"/lake/{'far' if number == 6 else 'near'}/t{number}",
            synced_at=NOW,
        )
        for number in range(7)
    ]
    InstantRecord.objects.create(
        table=made[1], requested_at="20260101000000000", action="commit", state="inflight"
    )
    InstantRecord.objects.create(
        table=made[5], requested_at="20260101000000001", action="clean", state="requested"
    )
    HeartbeatRecord.objects.create(
        table=made[5],
        instant="20260101000000001",
        beat_at=NOW,
        interval_ms=1000,
        tolerable_misses=2,
        last_seen=NOW,
    )
    return made


def listed(user: User, wanted: Wanted, *, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = tables_page(user, wanted, cursor=cursor, limit=limit, now=NOW)
        pages.append([row.slug for row in page.rows])
        cursor = page.next_cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_pages_have_every_table_once(tables: list[Table], viewer: User, limit: int) -> None:
    pages = listed(viewer, Wanted(), limit=limit)

    assert [slug for page in pages for slug in page] == [table.slug for table in tables]
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


def test_a_table_that_comes_or_goes_between_two_pages_moves_no_other(
    tables: list[Table], viewer: User
) -> None:
    first = tables_page(viewer, Wanted(), limit=3, now=NOW)
    Table.objects.create(slug="a", name="a", location="/lake/a")
    tables[2].delete()
    second = tables_page(viewer, Wanted(), cursor=first.next_cursor, limit=3, now=NOW)

    assert [row.slug for row in second.rows] == ["t3", "t4", "t5"]


def test_search_and_namespace_narrow_rows(tables: list[Table], viewer: User) -> None:
    sales = Wanted(namespace="sales")

    assert listed(viewer, sales, limit=2) == [["t1", "t3"], ["t5"]]
    assert listed(viewer, Wanted(search="FAR"), limit=9) == [["t6"]]
    assert listed(viewer, Wanted(search="table 3"), limit=9) == [["t3"]]
    assert listed(viewer, Wanted(search="%"), limit=9) == [[]]


def test_rows_end_where_a_role_does(tables: list[Table], nobody: User) -> None:
    Grant.objects.create(user=nobody, role="viewer", namespace="sales")

    assert listed(nobody, Wanted(), limit=9) == [["t1", "t3", "t5"]]
    assert tables_named(nobody, "t2") == []
    assert tables_named(nobody, "TABLE 3") == ["t3"]


def test_queries_do_not_grow_with_the_list(
    tables: list[Table], viewer: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(6):
        tables_page(viewer, Wanted(), limit=7, now=NOW)


@pytest.mark.parametrize("cursor", ["../t1", "T1", "t1 ", "%00"])
def test_what_is_no_cursor_is_refused(tables: list[Table], viewer: User, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        tables_page(viewer, Wanted(), cursor=cursor)
