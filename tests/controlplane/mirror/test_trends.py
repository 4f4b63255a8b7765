"""Trends by day, from the mirrored instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries import trends
from controlplane.mirror.queries.trends import load_trends
from controlplane.tables.models import Table
from workers.clock import format_instant


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="t", name="t", location="/nowhere/t")


def add_commit(table: Table, at: datetime, *, took_s: float, kind: str = "UPSERT") -> None:
    completed_ms = int(at.timestamp() * 1000)
    InstantRecord.objects.create(
        table=table,
        requested_at=format_instant(completed_ms - int(took_s * 1000)),
        action="commit",
        state="completed",
        completed_at=format_instant(completed_ms),
        operation_type=kind,
        rows=10,
        bytes=100,
    )


def test_days_have_sums_durations_and_gaps(table: Table) -> None:
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = midnight - timedelta(days=1)
    for hour, took_s in ((1, 2.0), (2, 4.0), (9, 9.0)):
        add_commit(table, yesterday + timedelta(hours=hour), took_s=took_s)
    add_commit(table, yesterday + timedelta(hours=5), took_s=600, kind="CLUSTER")
    add_commit(table, yesterday - timedelta(days=9), took_s=1)

    trend = load_trends(table, 3)

    before, busy, today = trend.days
    assert [day.day for day in trend.days] == [
        str((midnight - timedelta(days=at)).date()) for at in (2, 1, 0)
    ]
    assert (busy.commits, busy.rows, busy.bytes) == (3, 30, 300)
    assert (busy.duration_median_s, busy.duration_max_s) == (4.0, 9.0)
    assert busy.gap_max_s == 7 * 3600
    assert (before.commits, before.duration_max_s, today.gap_max_s) == (0, None, None)
    assert not trend.is_cut


def test_only_the_newest_commits_are_counted(
    table: Table, monkeypatch: pytest.MonkeyPatch, admin: User
) -> None:
    monkeypatch.setattr(trends, "COMMITS_MAX", 2)
    client = Client()
    client.force_login(admin)
    now = timezone.now()
    for minute in range(4):
        add_commit(table, now - timedelta(minutes=minute), took_s=1)

    answer = client.get("/api/v1/tables/t/trends/", {"days": 2}).json()
    page = client.get("/t/t/trends", {"days": 7}).content.decode()

    assert sum(day["commits"] for day in answer["days"]) == 2
    assert answer["is_cut"] is True
    assert "only the newest" in page
    assert "Longest gap between commits" in page
