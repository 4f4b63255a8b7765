"""Rounds over the health of all tables: the checks of their pages, noted where a scrape finds them.

A table whose mirror changed is judged soon, a quiet one every few minutes, because most of what
goes wrong on it goes wrong by time alone. Whoever was judged longest ago comes first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from controlplane.mirror.queries.health import health_checks
from controlplane.monitoring.models import TableHealth
from controlplane.tables.models import Table
from workers.clock import Clock, SystemClock

BUDGET_S = 1.0
QUIET_EVERY = timedelta(minutes=5)
CHANGED_EVERY = timedelta(seconds=30)
ROUND_MAX = 500
_UNWELL = ("warn", "bad")


def judge_tables(*, budget_s: float = BUDGET_S, clock: Clock | None = None) -> int:
    """How many tables were judged: one at least, if any is due. A few queries each."""
    clock = clock or SystemClock()
    ends_s = clock.monotonic_s() + budget_s
    judged = 0
    for table in _due(timezone.now()):
        if judged and clock.monotonic_s() > ends_s:
            break
        _judge(table, timezone.now())
        judged += 1
    return judged


def _due(now: datetime) -> list[Table]:
    last = F("health__looked_at")
    is_old = Q(health__isnull=True) | Q(health__looked_at__lte=now - QUIET_EVERY)
    has_changed = Q(sync_mark__changed_at__gt=last, health__looked_at__lte=now - CHANGED_EVERY)
    tables = Table.objects.filter(is_old | has_changed)
    return list(tables.order_by(last.asc(nulls_first=True), "pk")[:ROUND_MAX])


def _judge(table: Table, now: datetime) -> None:
    verdicts = {
        check.name: check.verdict for check in health_checks(table, now) if check.verdict in _UNWELL
    }
    TableHealth.objects.update_or_create(
        table=table, defaults={"looked_at": now, "verdicts": verdicts}
    )
