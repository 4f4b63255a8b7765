"""Lines of tables: what blocks archiving."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.home.lines import table_lines
from controlplane.mirror.models import InstantRecord, SyncMark
from controlplane.monitoring.models import TableHealth
from controlplane.tables.models import Table

pytestmark = pytest.mark.django_db

COMMITS = 40
"""More than a timeline keeps."""


def a_table(slug: str, verdicts: Mapping[str, str], held_by: Mapping[str, str] | None) -> Table:
    table = Table.objects.create(slug=slug, name=slug, location=f"/lake/{slug}")
    TableHealth.objects.create(table=table, looked_at=timezone.now(), verdicts=verdicts)
    if held_by is not None:
        SyncMark.objects.create(table=table, held_by=held_by)
    return table


def record(table: Table, second: int, action: str = "commit", *, is_archived: bool = False) -> None:
    at = f"202611261200{second:02}000"
    InstantRecord.objects.create(
        table=table, requested_at=at, completed_at=at, action=action, state="completed",
        is_archived=is_archived, metadata={},
    )  # fmt: skip


def find_blocked(person: User) -> list[str]:
    lines = table_lines(person, timezone.now())
    return [line.slug for line in lines if line.is_archiving_blocked]


def test_a_table_is_blocked_where_its_check_fails_and_something_holds_it_up(admin: User) -> None:
    holders, failing = {"20261126120000000": "writer-1"}, {"archiving": "warn"}
    a_table("held", failing, holders)
    a_table("held-and-well", {"commits": "bad"}, holders)
    a_table("failing", failing, {})
    a_table("never-synced", failing, None)

    assert find_blocked(admin) == ["held"]


def test_savepoints_block_that_are_older_than_what_a_timeline_keeps(admin: User) -> None:
    failing = {"archiving": "warn"}
    old, late, archived = (a_table(slug, failing, {}) for slug in ("old", "late", "archived"))
    for second in range(1, COMMITS):
        for table in (old, late, archived):
            record(table, second)
    record(old, 0, "savepoint")
    record(late, COMMITS, "savepoint")
    record(archived, 0, "savepoint", is_archived=True)

    with CaptureQueriesContext(connection) as queries:
        assert find_blocked(admin) == ["old"]

    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {queries.captured_queries[-1]['sql']}")
            steps = [step for *_, step in cursor.fetchall()]
        bounded = "USING INDEX instant_active (table_id=? AND requested_at<?)"
        assert any(bounded in step for step in steps), "instants of the kept commits are read too"
