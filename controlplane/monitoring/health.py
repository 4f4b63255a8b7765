"""Periodic evaluation of the health of all tables. The verdicts are stored for scrapes, and alerts
are updated.

A table is evaluated soon after a change of its mirror or the end of an operation. A quiet table is
evaluated every few minutes, because checks also fail by the passage of time. The table with the
oldest evaluation comes first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from controlplane.monitoring.alert_rules import load_changed_rules
from controlplane.monitoring.alerts import update_alerts
from controlplane.monitoring.events import build_event_checks
from controlplane.monitoring.models import Alert, TableHealth
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
