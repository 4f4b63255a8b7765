"""Periodic evaluation of the health of all tables. The verdicts are stored for scrapes, and alerts
are updated: they fire by their rules and are resolved automatically. Channels are notified of both.

A table is evaluated soon after a change of its mirror or the end of an operation. A quiet table is
evaluated every few minutes, because checks also fail by the passage of time. The table with the
oldest evaluation comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from controlplane.batches import delete_in_batches
from controlplane.mirror.health_check import Check
from controlplane.monitoring.alert_rules import Rule, get_rule, load_changed_rules
from controlplane.monitoring.channels.notifications import announce_end, announce_firing
from controlplane.monitoring.events import build_event_checks
from controlplane.monitoring.models import Alert, Silence, TableHealth
from controlplane.monitoring.severities import get_severity
from controlplane.monitoring.thresholds import check_table_health
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table
from workers.clock import Clock, SystemClock

BUDGET_S = 1.0
QUIET_EVERY = timedelta(minutes=5)
CHANGED_EVERY = timedelta(seconds=30)
ALERTING_EVERY = timedelta(minutes=1)
"""The interval for tables with open alerts, without a change of the mirror."""
ROUND_MAX = 500
_FAILING = ("warn", "bad")
KEPT_FOR = timedelta(days=30)


def evaluate_table_health(*, budget_s: float = BUDGET_S, clock: Clock | None = None) -> int:
    """Evaluate due tables; return their number, at least one if any is due. A few queries each."""
    clock = clock or SystemClock()
    ends_s = clock.monotonic_s() + budget_s
    judged = 0
    for table in _load_due_tables(timezone.now()):
        if judged and clock.monotonic_s() > ends_s:
            break
        _evaluate(table, timezone.now())
        judged += 1
    return judged


def _load_due_tables(now: datetime) -> list[Table]:
    last = F("health__looked_at")
    is_old = Q(health__isnull=True) | Q(health__looked_at__lte=now - QUIET_EVERY)
    has_changed = Q(sync_mark__changed_at__gt=last, health__looked_at__lte=now - CHANGED_EVERY)
    alerts = Alert.objects.filter(table=OuterRef("pk"), resolved_at__isnull=True)
    is_alerting = Q(Exists(alerts), health__looked_at__lte=now - ALERTING_EVERY)
    looked_at = OuterRef("health__looked_at")
    is_waiting = Q(state=OperationState.AWAITING.value, requested_at__gt=looked_at)
    ended = Operation.objects.filter(
        Q(finished_at__gt=looked_at) | is_waiting, table=OuterRef("pk")
    )
    has_ended = Q(Exists(ended), health__looked_at__lte=now - CHANGED_EVERY)
    tables = Table.objects.filter(is_old | has_changed | is_alerting | has_ended)
    return list(tables.order_by(last.asc(nulls_first=True), "pk")[:ROUND_MAX])


def _evaluate(table: Table, now: datetime) -> None:
    checks, changed = check_table_health(table, now), load_changed_rules()
    update_alerts(table, [*checks, *build_event_checks(table, now, changed)], now, changed)
    verdicts = {check.name: check.verdict for check in checks if check.verdict in _FAILING}
    TableHealth.objects.update_or_create(
        table=table, defaults={"looked_at": now, "verdicts": verdicts}
    )


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
