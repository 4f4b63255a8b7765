"""Trends by day, from the mirrored instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries import trends
from controlplane.mirror.queries.trends import load_trends
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from controlplane.tables.row_access import whole_access
from workers.clock import format_instant
from workers.timeline.metadata import STREAM_MAX_ORDERING_KEY


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="t", name="t", location="/nowhere/t")


def add_commit(
    table: Table, at: datetime, *, took_s: float, kind: str = "UPSERT", **more: Any
) -> None:
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
        **more,
    )


def test_days_have_sums_durations_and_gaps(table: Table) -> None:
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = midnight - timedelta(days=1)
    for hour, took_s in ((1, 2.0), (2, 4.0), (9, 9.0)):
        add_commit(table, yesterday + timedelta(hours=hour), took_s=took_s)
    add_commit(table, yesterday + timedelta(hours=5), took_s=600, kind="CLUSTER")
    add_commit(table, yesterday - timedelta(days=9), took_s=1)

    trend = load_trends(table, 3, whole_access("ada", "t"))

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


def test_event_lag_is_from_the_newest_event_of_a_commit_to_its_completion(table: Table) -> None:
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    noon = midnight - timedelta(hours=12)
    for stream, lag_s in (("click", 4), ("click", 6), ("view", 20)):
        event = (noon - timedelta(seconds=lag_s)).isoformat()
        metadata = {"extra": {STREAM_MAX_ORDERING_KEY: event}}
        noon += timedelta(milliseconds=1)
        add_commit(table, noon, took_s=1, stream=stream, metadata=metadata)
    add_commit(table, noon + timedelta(seconds=1), took_s=1)
    ahead = {"extra": {STREAM_MAX_ORDERING_KEY: (noon + timedelta(days=400)).isoformat()}}
    add_commit(table, noon - timedelta(days=1), took_s=1, stream="wrong clock", metadata=ahead)

    trend = load_trends(table, 3, whole_access("ada", "t"))

    before, yesterday, today = trend.days
    assert trend.event_lag == "reported"
    assert yesterday.event_lag_median_s == pytest.approx(6, abs=0.01)
    assert yesterday.event_lag_max_s == pytest.approx(20, abs=0.01)
    assert (before.event_lag_max_s, today.event_lag_max_s) == (0, None)


def test_event_lag_of_column_groups_goes_by_their_units(table: Table) -> None:
    table.groups = [{"name": "click", "columns": ["clicks"], "ordering": ["clicked_at"]}]
    table.time_units = "clicked_at=s"
    now = timezone.now()
    facts = {"click": {"rows": 3, "greatest": str(int(now.timestamp()) - 50)}}
    add_commit(table, now, took_s=1, metadata={"groups": facts})

    trend = load_trends(table, 1, whole_access("ada", "t"))

    assert trend.days[0].event_lag_max_s == pytest.approx(50, abs=1.1)


def test_event_lag_is_absent_where_nothing_reports_it_and_hidden_behind_a_mask(
    table: Table, viewer: User
) -> None:
    client = Client()
    client.force_login(viewer)
    table.ordering = "at"
    table.save()
    add_commit(table, timezone.now(), took_s=1, stream="click")
    without = client.get("/t/t/trends").content.decode()
    event = {"extra": {STREAM_MAX_ORDERING_KEY: timezone.now().isoformat()}}
    add_commit(table, timezone.now(), took_s=2, stream="click", metadata=event)
    RowGrant.objects.create(user=viewer, table=table, right="rows", granted_by="a test")
    reported = client.get("/api/v1/tables/t/trends/").json()
    MaskedColumn.objects.create(table=table, path="at")
    masked = client.get("/api/v1/tables/t/trends/").json()
    page = client.get("/t/t/trends").content.decode()

    assert "No stream reported event times" in without
    assert reported["event_lag"] == "reported"
    assert reported["days"][-1]["event_lag_max_s"] is not None
    assert masked["event_lag"] == "masked"
    assert masked["days"][-1]["event_lag_max_s"] is None
    assert "Event lag is masked" in page
