"""Alerts of health checks: they fire by their rules and are resolved automatically. Channels are
notified of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.batches import delete_in_batches
from controlplane.mirror.health_check import Check
from controlplane.monitoring.alert_rules import Rule, get_rule, load_changed_rules
from controlplane.monitoring.channels.notifications import announce_end, announce_firing
from controlplane.monitoring.models import Alert, Silence
from controlplane.monitoring.severities import get_severity
from controlplane.tables.models import Table

KEPT_FOR = timedelta(days=30)


def update_alerts(
    table: Table,
    checks: Iterable[Check],
    now: datetime,
    changed: Mapping[str, Rule] | None = None,
) -> None:
    """Open an alert for each check that fails by its rule, and close all others.

    Two queries if nothing changed, one less with `changed`, the result of `load_changed_rules`.
    Only one process at a time may evaluate a table.
    """
    changed = load_changed_rules() if changed is None else changed
    failing = {
        check.name: check for check in checks if get_rule(check.name, changed).is_about(check)
    }
    opened = {alert.check_name: alert for alert in _open_alerts(table)}
    if not (failing or opened):
        return
    with transaction.atomic():
        for name, check in failing.items():
            alert = opened.get(name) or Alert(table=table, check_name=name, unwell_at=now)
            _update_alert(alert, check, get_rule(name, changed), now)
            opened[name] = alert
        announce_firing((opened[name] for name in failing), now)
        for name in opened.keys() - failing.keys():
            _close(opened[name], now)


def delete_old_alerts(*, now: datetime) -> None:
    """Delete alerts that were resolved, and silences that ended, more than `KEPT_FOR` ago."""
    delete_in_batches(Alert.objects.filter(resolved_at__lt=now - KEPT_FOR))
    delete_in_batches(Silence.objects.filter(until__lt=now - KEPT_FOR))


def _open_alerts(table: Table) -> Iterable[Alert]:
    return Alert.objects.filter(table=table, resolved_at__isnull=True)


def _update_alert(alert: Alert, check: Check, rule: Rule, now: datetime) -> None:
    before = (alert.pk, alert.verdict, alert.severity, alert.sentence, alert.fired_at)
    alert.title, alert.verdict = check.title, check.verdict
    alert.severity = get_severity(check.verdict, rule.severity)
    alert.sentence, alert.advice = check.sentence, check.advice
    if alert.fired_at is None and now - alert.unwell_at >= rule.hold:
        alert.fired_at = now
    after = (alert.pk, alert.verdict, alert.severity, alert.sentence, alert.fired_at)
    if before != after or alert.pk is None:
        alert.save()


def _close(alert: Alert, now: datetime) -> None:
    """Resolve an alert, or delete one that never fired."""
    if alert.fired_at is None:
        alert.delete()
        return
    alert.resolved_at = now
    alert.save(update_fields=["resolved_at"])
    announce_end(alert, now)
