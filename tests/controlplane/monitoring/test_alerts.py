"""Alerts fire by their rule, are resolved by themselves, and are silenced by who may."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Check, Verdict
from controlplane.monitoring.actions import do_change_rule, do_end_silence, do_silence
from controlplane.monitoring.alert_rules import CHECKS, HOLD_MINUTES_MAX, list_rules
from controlplane.monitoring.health import (
    KEPT_FOR,
    delete_old_alerts,
    evaluate_table_health,
    update_alerts,
)
from controlplane.monitoring.models import Alert, AlertRule, TableHealth
from controlplane.monitoring.queries import get_alert_row, load_alert_board
from controlplane.tables.models import Table
from tests.controlplane.monitoring.conftest import Scrape, key

REPOSITORY = Path(__file__).resolve().parents[3]
MINUTE = timedelta(minutes=1)
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="trips", name="Trips", location="/lake/trips")


def check(verdict: Verdict, name: str = "compaction", sentence: str = "12 delta commits") -> Check:
    return Check(name=name, title="Compaction keeps up", verdict=verdict, sentence=sentence)


def settle(table: Table, verdict: Verdict, after: timedelta, name: str = "compaction") -> None:
    update_alerts(table, [check(verdict, name)], NOW + after)


def fire(table: Table, verdict: Verdict = "warn", name: str = "compaction") -> Alert:
    settle(table, verdict, -2 * MINUTE, name)
    settle(table, verdict, -MINUTE, name)
    return Alert.objects.get(table=table, check_name=name, resolved_at=None)


def test_an_alert_fires_once_its_check_was_unwell_for_a_minute(table: Table) -> None:
    settle(table, "warn", timedelta())
    settle(table, "warn", MINUTE / 2)
    waiting = Alert.objects.get()
    settle(table, "bad", MINUTE)
    fires = Alert.objects.get()
    settle(table, "bad", 5 * MINUTE)

    assert waiting.fired_at is None
    assert (fires.fired_at, fires.unwell_at, fires.verdict) == (NOW + MINUTE, NOW, "bad")
    assert Alert.objects.get().fired_at == NOW + MINUTE, "it fires since then, once"


@pytest.mark.parametrize("verdict", ["good", "quiet"])
def test_what_is_well_again_before_it_fired_was_no_alert(table: Table, verdict: Verdict) -> None:
    settle(table, "bad", timedelta())
    settle(table, verdict, MINUTE / 2)

    assert not Alert.objects.exists()


def test_an_alert_is_resolved_by_itself_and_a_later_one_is_another(table: Table) -> None:
    fire(table)
    settle(table, "good", timedelta())
    settle(table, "warn", MINUTE)

    ended, begun = Alert.objects.order_by("pk")
    assert (ended.resolved_at, begun.resolved_at, begun.fired_at) == (NOW, None, None)


def test_a_check_that_a_table_has_no_more_is_resolved(table: Table) -> None:
    fire(table)
    update_alerts(table, [], NOW)

    assert Alert.objects.get().resolved_at == NOW


def test_what_fires_says_what_is_so_now(table: Table) -> None:
    fire(table)
    update_alerts(table, [check("warn", sentence="40 delta commits")], NOW)

    assert Alert.objects.get().sentence == "40 delta commits"


@pytest.mark.parametrize(
    ("fires", "verdict", "wanted"),
    [
        ("warn", "warn", True),
        ("warn", "bad", True),
        ("bad", "warn", False),
        ("bad", "bad", True),
        ("never", "bad", False),
    ],
)
def test_a_rule_says_from_which_verdict_on(
    table: Table, admin: User, fires: str, verdict: Verdict, wanted: bool
) -> None:
    do_change_rule(check="compaction", fires=fires, hold_minutes=0, by=admin)

    settle(table, verdict, timedelta())

    assert Alert.objects.filter(fired_at__isnull=False).exists() is wanted


def test_a_rule_that_is_loosened_resolves_what_it_no_longer_means(
    table: Table, admin: User
) -> None:
    fire(table)
    do_change_rule(check="compaction", fires="bad", hold_minutes=1, by=admin)
    settle(table, "warn", timedelta())

    assert Alert.objects.get().resolved_at == NOW


def test_a_rule_as_it_was_made_leaves_no_row(admin: User) -> None:
    do_change_rule(check="clocks", fires="never", hold_minutes=5, by=admin)
    changed = {row.check: row for row in list_rules()}["clocks"]
    do_change_rule(check="clocks", fires="warn", hold_minutes=1, by=admin)

    assert (changed.fires, changed.hold_minutes, changed.is_changed) == ("never", 5, True)
    assert not AlertRule.objects.exists()
    assert AuditEvent.objects.filter(what="alert.rule", object="clocks").count() == 2


@pytest.mark.parametrize(
    ("name", "fires", "minutes"),
    [("none", "bad", 1), ("clocks", "often", 1), ("clocks", "bad", HOLD_MINUTES_MAX + 1)],
)
def test_a_rule_that_cannot_be_is_refused(admin: User, name: str, fires: str, minutes: int) -> None:
    with pytest.raises(InvalidRequest):
        do_change_rule(check=name, fires=fires, hold_minutes=minutes, by=admin)


def test_only_an_admin_of_everything_changes_rules(operator: User) -> None:
    with pytest.raises(PermissionDenied):
        do_change_rule(check="clocks", fires="never", hold_minutes=1, by=operator)


def test_every_health_check_has_a_rule() -> None:
    places = [
        *(REPOSITORY / "controlplane" / "mirror").glob("health_*.py"),
        REPOSITORY / "controlplane" / "mirror" / "queries" / "health.py",
    ]
    text = "\n".join(place.read_text() for place in places)
    names = set(re.findall(r'Check\(\s*name="([a-z-]+)"', text)) | {"read-alike"}

    assert names == set(CHECKS)
    assert all(f'"{title}"' in text for title in CHECKS.values())


def test_the_board_shows_what_is_bad_first_and_keeps_silent_ones_apart(
    table: Table, operator: User, viewer: User, scraped: Scrape
) -> None:
    unwell = [check("warn", "cleaning"), check("bad", "mirror"), check("warn", "compaction")]
    update_alerts(table, unwell, NOW - 2 * MINUTE)
    assert load_alert_board(viewer, NOW).firing == [], "no rule is through with waiting"
    update_alerts(table, unwell, NOW - MINUTE)
    do_silence(table=table, check="compaction", hours=2, reason="known", by=operator)

    board = load_alert_board(viewer, timezone.now())
    later = load_alert_board(viewer, timezone.now() + timedelta(hours=3))
    got = scraped()

    assert [row.check for row in board.firing] == ["mirror", "cleaning"]
    (silent,) = board.silenced
    assert silent.silence is not None
    assert (silent.check, silent.silence.by, silent.silence.reason) == (
        "compaction",
        "olaf",
        "known",
    )
    assert len(later.firing) == 3, "a silence ends by itself"
    assert not any(row.may_silence for row in board.firing), "a viewer only looks"
    assert got[key("sluice_alerts_firing", verdict="bad")] == 1
    assert got[key("sluice_alerts_firing", verdict="warn")] == 1


def test_resolved_ones_are_shown_for_a_day_and_kept_for_a_month(table: Table, viewer: User) -> None:
    alert = fire(table)
    settle(table, "good", timedelta())

    def shown(at: datetime) -> int:
        return len(load_alert_board(viewer, at).resolved)

    assert (shown(NOW + timedelta(hours=23)), shown(NOW + timedelta(hours=25))) == (1, 0)
    delete_old_alerts(now=NOW + KEPT_FOR - MINUTE)
    assert Alert.objects.filter(pk=alert.pk).exists()
    delete_old_alerts(now=NOW + KEPT_FOR + MINUTE)
    assert not Alert.objects.exists()


def test_nobody_sees_alerts_of_tables_that_he_may_not_see(table: Table, nobody: User) -> None:
    alert = fire(table)

    assert load_alert_board(nobody, NOW).firing == []
    with pytest.raises(Http404):
        get_alert_row(nobody, alert.pk, NOW)


def test_a_silence_is_an_operators_and_ends_when_he_says_so(
    table: Table, operator: User, viewer: User
) -> None:
    alert = fire(table)
    with pytest.raises(PermissionDenied):
        do_silence(table=table, check="compaction", hours=1, reason="x", by=viewer)
    do_silence(table=table, check="compaction", hours=1, reason="x", by=operator)
    with pytest.raises(PermissionDenied):
        do_end_silence(alert_id=alert.pk, by=viewer)
    do_end_silence(alert_id=alert.pk, by=operator)

    assert len(load_alert_board(operator, NOW).firing) == 1
    recorded = AuditEvent.objects.order_by("pk").values_list("what", flat=True)
    assert list(recorded) == ["alert.silence", "alert.unsilence"]


@pytest.mark.parametrize(("hours", "reason"), [(0, "x"), (169, "x"), (1, " "), (1, "x" * 501)])
def test_a_silence_without_an_end_or_a_reason_is_refused(
    table: Table, operator: User, hours: int, reason: str
) -> None:
    with pytest.raises(InvalidRequest):
        do_silence(table=table, check="compaction", hours=hours, reason=reason, by=operator)


def test_a_table_with_an_open_alert_is_looked_at_again_soon(table: Table) -> None:
    Table.objects.update(sync_error="gone")
    evaluate_table_health()
    opened = Alert.objects.get()
    TableHealth.objects.update(looked_at=timezone.now() - 2 * MINUTE)
    Alert.objects.update(unwell_at=opened.unwell_at - 2 * MINUTE)

    assert evaluate_table_health() == 1
    assert Alert.objects.get(check_name="mirror").fired_at is not None
