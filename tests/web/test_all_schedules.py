"""Schedules of all tables, and their runs by day."""

from __future__ import annotations

from datetime import UTC, timedelta

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.operations.models import Operation, ScheduleRun
from controlplane.tables.models import Table
from tests.support.schedules import nightly


def test_runs_are_counted_by_day_and_result_for_visible_tables_alone(
    as_admin: Client, admin: User, trips: Table, orders: Table
) -> None:
    schedule, hidden = nightly(trips, admin), nightly(orders, admin)
    now = timezone.now().astimezone(UTC)
    yesterday = now - timedelta(days=1)
    states = ("succeeded", "succeeded", "failed", "running")
    for number, state in enumerate(states):
        operation = Operation.objects.create(table=trips, kind="write", state=state)
        ScheduleRun.objects.create(
            schedule=schedule,
            turn=f"t{number}",
            due_at=yesterday,
            outcome="requested",
            operation=operation,
        )
    ScheduleRun.objects.create(schedule=schedule, turn="t9", due_at=now, outcome="skipped")
    ScheduleRun.objects.create(schedule=hidden, turn="t1", due_at=now, outcome="refused")
    viewer = User.objects.create_user("rhea")
    Grant.objects.create(user=viewer, table=trips, role="viewer", granted_by="a test")
    as_viewer = Client()
    as_viewer.force_login(viewer)

    rows = as_viewer.get("/api/v1/schedules/days/", {"days": 2}).json()
    page = as_viewer.get("/schedules").content.decode()
    of_admin = as_admin.get("/schedules").content.decode()

    assert [
        (row["day"], row["succeeded"], row["failed"], row["running"], row["skipped"])
        for row in rows
    ] == [(str(yesterday.date()), 2, 1, 1, 0), (str(now.date()), 0, 0, 0, 1)]
    assert "2 successful runs" in page
    assert "1 failed run" in page
    assert f"/t/orders/schedules/{hidden.pk}" not in page
    assert f"/t/orders/schedules/{hidden.pk}" in of_admin
