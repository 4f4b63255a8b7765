"""Alerts about events: open for a while after the last one, and then resolved by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.mirror.models import InstantRecord
from controlplane.monitoring.actions import do_change_rule
from controlplane.monitoring.alert_rules import EVENTS, list_rules, load_changed_rules
from controlplane.monitoring.events import build_event_checks
from controlplane.monitoring.health import evaluate_table_health
from controlplane.monitoring.models import Alert, TableHealth
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import format_instant

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="trips", name="Trips", location="/lake/trips", synced_at=NOW)


def names(table: Table, after: timedelta = timedelta()) -> dict[str, str]:
    return {
        check.name: check.verdict
        for check in build_event_checks(table, NOW + after, load_changed_rules())
    }


def operation(table: Table, kind: str, state: str) -> None:
    Operation.objects.create(table=table, kind=kind, state=state, finished_at=NOW)


def everything(table: Table) -> None:
    at = format_instant(int(NOW.timestamp() * 1000))
    InstantRecord.objects.create(
        table=table, requested_at=at, completed_at=at, action="rollback", state="completed"
    )
    Conflict.objects.create(table=table, loser_instant=at, kind="write", decided_at=NOW)
    operation(table, "write", "failed")
    operation(table, "sink", "lost")
    Operation.objects.create(table=table, kind="rollback", state="awaiting")
    Table.objects.update(sync_error="gone")
    table.refresh_from_db()


def test_each_kind_of_event_is_seen_and_over_after_its_window(table: Table, admin: User) -> None:
    for name in EVENTS:
        do_change_rule(check=name, fires="warn", hold_minutes=0, window_minutes=30, by=admin)
    assert names(table) == {}
    everything(table)

    assert set(names(table)) == set(EVENTS)
    assert set(names(table, HOUR / 2 - timedelta(seconds=1))) == set(EVENTS)
    states = {"event-approval", "event-table-lost"}
    assert set(names(table, HOUR)) == states, "no moments"


def test_as_made_nobody_is_called_for_what_is_expected_or_said_elsewhere(table: Table) -> None:
    everything(table)

    seen = names(table)

    assert set(EVENTS) - set(seen) == {"event-conflict", "event-table-lost"}
    assert (seen["event-sink-stopped"], seen["event-rollback"]) == ("bad", "warn")


@pytest.mark.parametrize(
    ("kind", "state", "wanted"),
    [
        ("write", "failed", {"event-failed-operation"}),
        ("service", "refused", {"event-failed-operation"}),
        ("write", "conflicted", set()),
        ("write", "cancelled", set()),
        ("write", "succeeded", set()),
        ("sink", "failed", {"event-sink-stopped"}),
        ("sink", "lost", {"event-sink-stopped"}),
        ("sink", "cancelled", set()),
        ("sink", "fenced", set()),
    ],
)
def test_only_what_nobody_meant_is_an_event(
    table: Table, kind: str, state: str, wanted: set[str]
) -> None:
    operation(table, kind, state)

    assert set(names(table)) == wanted


def test_an_event_of_another_table_is_not_this_ones(table: Table) -> None:
    everything(Table.objects.create(slug="ads", name="Ads", location="/lake/ads"))
    Table.objects.update(sync_error="")
    table.refresh_from_db()

    assert names(table) == {}


def test_a_failed_operation_is_judged_soon_fires_at_once_and_ends(
    table: Table, admin: User
) -> None:
    do_change_rule(
        check="event-failed-operation",
        fires="warn",
        hold_minutes=0,
        severity="critical",
        window_minutes=60,
        by=admin,
    )
    TableHealth.objects.create(table=table, looked_at=timezone.now() - timedelta(minutes=1))
    assert evaluate_table_health() == 0, "quiet, and looked at a minute ago"
    Operation.objects.create(table=table, kind="write", state="failed", finished_at=timezone.now())

    assert evaluate_table_health() == 1
    alert = Alert.objects.get(check_name="event-failed-operation")
    assert (alert.severity, alert.fired_at is not None) == ("critical", True)
    Operation.objects.update(finished_at=timezone.now() - 2 * HOUR)
    TableHealth.objects.update(looked_at=timezone.now() - HOUR)
    evaluate_table_health()
    assert Alert.objects.get(check_name="event-failed-operation").resolved_at is not None


def test_rules_of_events_stand_behind_those_of_checks(db: None) -> None:
    rows = list_rules()

    assert [row.check for row in rows if row.is_event] == list(EVENTS)
    assert not any(row.is_changed for row in rows)
