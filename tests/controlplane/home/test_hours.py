"""Commits by hour: of a fleet that commits a lot the hours long past are kept, and say the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from controlplane.home import hours
from controlplane.home.hours import (
    HOURS,
    all_commits_by_hour,
    commits_by_hour,
    commits_of_day,
    hour_starts,
)
from controlplane.home.lines import _last_commit
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from workers.clock import format_instant

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hours, "_KEPT_LEAST", 3)
    for cache in (hours._kept, hours._kept_by_table, hours._kept_totals):
        cache.clear()
    yield
    for cache in (hours._kept, hours._kept_by_table, hours._kept_totals):
        cache.clear()


def a_table(slug: str) -> Table:
    return Table.objects.create(slug=slug, name=slug, location=f"/lake/{slug}")


def commit(table: Table, hours_ago: int, rows: int | None = None) -> None:
    moment = NOW - timedelta(hours=hours_ago)
    at = format_instant(int(moment.timestamp() * 1000) + InstantRecord.objects.count())
    InstantRecord.objects.create(
        table=table, requested_at=at, completed_at=at, action="commit", state="completed",
        metadata={}, rows=rows,
    )  # fmt: skip


def test_hours_long_past_are_kept_and_the_newest_counted_each_time(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    table, starts = a_table("fares"), hour_starts(NOW)
    for hours_ago in (0, 1, 2, 5, 5, 9, 40):
        commit(table, hours_ago)
    first = all_commits_by_hour([table.pk], starts)
    assert len(first) == HOURS
    assert (sum(first), first[-6], first[-10], first[-1]) == (6, 2, 1, 1)

    commit(table, 1)
    with django_assert_num_queries(1) as queries:
        again = all_commits_by_hour([table.pk], starts)

    assert _since(2) in queries.captured_queries[0]["sql"]
    assert again == [*first[:-2], first[-2] + 1, first[-1]]


def test_they_are_of_these_tables_and_of_this_hour_alone() -> None:
    fares, trips = a_table("fares"), a_table("trips")
    for table, hours_ago in ((fares, 5), (fares, 6), (fares, 7), (trips, 5)):
        commit(table, hours_ago)
    assert sum(all_commits_by_hour([fares.pk], hour_starts(NOW))) == 3

    assert sum(all_commits_by_hour([fares.pk, trips.pk], hour_starts(NOW))) == 4
    assert sum(all_commits_by_hour([trips.pk], hour_starts(NOW))) == 1
    later = all_commits_by_hour([fares.pk], hour_starts(NOW + timedelta(hours=1)))
    assert later[-7] == 1


def test_hours_of_each_table_are_kept_alike(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    fares, trips, starts = a_table("fares"), a_table("trips"), hour_starts(NOW)
    for table, hours_ago in ((fares, 5), (fares, 5), (fares, 2), (trips, 9), (trips, 40)):
        commit(table, hours_ago, rows=10)
    keys = [fares.pk, trips.pk]
    first = commits_by_hour(keys, starts)
    assert {key: (of.total, of.rows) for key, of in first.items()} == {
        fares.pk: (3, 30),
        trips.pk: (1, 10),
    }

    commit(fares, 0, rows=7)
    with django_assert_num_queries(1) as queries:
        again = commits_by_hour(keys, starts)

    assert _since(2) in queries.captured_queries[0]["sql"]
    assert (again[fares.pk].total, again[fares.pk].rows) == (4, 37)
    assert (again[fares.pk].counts[-6], again[fares.pk].counts[-1]) == (2, 1)
    assert again[trips.pk] == first[trips.pk]
    once_more = commits_by_hour(keys, starts)
    assert once_more == again, "what is kept was changed"


def test_commits_of_the_day_are_the_sums_of_its_hours_from_an_index_alone() -> None:
    fares, trips, starts = a_table("fares"), a_table("trips"), hour_starts(NOW)
    keys = [fares.pk, trips.pk]
    for table, hours_ago in ((fares, 5), (fares, 5), (fares, 2), (trips, 9), (trips, 40)):
        commit(table, hours_ago)
    first = commits_of_day(keys, starts)
    commit(fares, 0)

    with CaptureQueriesContext(connection) as queries:
        again = commits_of_day(keys, starts)

    assert dict(first) == {fares.pk: 3, trips.pk: 1}
    assert dict(again) == {fares.pk: 4, trips.pk: 1}
    assert {key: of.total for key, of in commits_by_hour(keys, starts).items()} == dict(again)
    [query] = queries.captured_queries
    assert _since(2) in query["sql"]
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            steps = " ".join(step for *_, step in cursor.fetchall())
        assert "USING COVERING INDEX instant_by_completed_action" in steps


def _since(hours_ago: int) -> str:
    return f"{NOW - timedelta(hours=hours_ago):%Y%m%d%H}"


def test_few_commits_are_counted_anew() -> None:
    table, starts = a_table("fares"), hour_starts(NOW)
    commit(table, 5)
    assert sum(all_commits_by_hour([table.pk], starts)) == 1

    commit(table, 5)

    assert sum(all_commits_by_hour([table.pk], starts)) == 2


def test_commits_are_counted_by_an_index_alone() -> None:
    """Rows are a kilobyte each, and a fleet has a million of them."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL decides by what it knows of a table, which is empty here")
    fares = a_table("fares")
    commit(fares, 5)
    with CaptureQueriesContext(connection) as queries:
        all_commits_by_hour([fares.pk], hour_starts(NOW))
        list(Table.objects.annotate(at=_last_commit()).values_list("at"))
    for query in queries.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            steps = " ".join(step for *_, step in cursor.fetchall())
        assert "USING COVERING INDEX instant_by_completed_action" in steps
