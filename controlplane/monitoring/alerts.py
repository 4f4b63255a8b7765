"""Alerts follow health checks: they fire by their rule, and are resolved by themselves. Channels
are sent word of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.batches import delete_in_batches
from controlplane.mirror.health_check import Check
from controlplane.monitoring.alert_rules import Rule, rule_of, rules
from controlplane.monitoring.channels.announcing import announce_end, announce_firing
from controlplane.monitoring.models import Alert, Silence
from controlplane.monitoring.severities import severity_of
from controlplane.tables.models import Table

KEPT_FOR = timedelta(days=30)


def settle_alerts(
    table: Table,
    checks: Iterable[Check],
    now: datetime,
    changed: Mapping[str, Rule] | None = None,
) -> None:
    """What is unwell by its rule has an open alert, and nothing else has. Two queries where nothing
    changed, one less with `changed` as `rules` has them. One process at a time judges a table.
    """
    changed = rules() if changed is None else changed
    unwell = {check.name: check for check in checks if rule_of(check.name, changed).is_about(check)}
    opened = {alert.check_name: alert for alert in _open_alerts(table)}
    if not (unwell or opened):
        return
    with transaction.atomic():
        for name, check in unwell.items():
            alert = opened.get(name) or Alert(table=table, check_name=name, unwell_at=now)
            _note(alert, check, rule_of(name, changed), now)
            opened[name] = alert
        announce_firing((opened[name] for name in unwell), now)
        for name in opened.keys() - unwell.keys():
            _close(opened[name], now)


def forget_alerts(*, now: datetime) -> None:
    """Resolved ones of long ago, and silences that are over."""
    delete_in_batches(Alert.objects.filter(resolved_at__lt=now - KEPT_FOR))
    delete_in_batches(Silence.objects.filter(until__lt=now - KEPT_FOR))


def _open_alerts(table: Table) -> Iterable[Alert]:
    return Alert.objects.filter(table=table, resolved_at__isnull=True)


def _note(alert: Alert, check: Check, rule: Rule, now: datetime) -> None:
    before = (alert.pk, alert.verdict, alert.severity, alert.sentence, alert.fired_at)
    alert.title, alert.verdict = check.title, check.verdict
    alert.severity = severity_of(check.verdict, rule.severity)
    alert.sentence, alert.advice = check.sentence, check.advice
    if alert.fired_at is None and now - alert.unwell_at >= rule.hold:
        alert.fired_at = now
    after = (alert.pk, alert.verdict, alert.severity, alert.sentence, alert.fired_at)
    if before != after or alert.pk is None:
        alert.save()


def _close(alert: Alert, now: datetime) -> None:
    """One that never fired was no alert."""
    if alert.fired_at is None:
        alert.delete()
        return
    alert.resolved_at = now
    alert.save(update_fields=["resolved_at"])
    announce_end(alert, now)
