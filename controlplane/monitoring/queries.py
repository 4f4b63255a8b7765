"""What fires now, what somebody silenced, and what was resolved, as plain rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import Http404

from controlplane.monitoring.models import Alert, Silence
from controlplane.tables.access import Permission, may, visible_tables

FIRING_MAX = 500
RESOLVED_MAX = 100
RESOLVED_SHOWN_FOR = timedelta(days=1)
_ORDER = {"bad": 0, "warn": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRow:
    until: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    id: int
    slug: str
    table_name: str
    check: str
    title: str
    verdict: str
    severity: str
    sentence: str
    advice: str
    fired_at: datetime
    resolved_at: datetime | None
    silence: SilenceRow | None
    may_silence: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBoard:
    firing: list[AlertRow]
    """What is bad first, then what fires longest. Without those that are silenced."""
    silenced: list[AlertRow]
    resolved: list[AlertRow]
    """Of the last day, the newest first."""
    is_cut: bool
    """More fire than are listed."""


def alert_board(user: User, now: datetime) -> AlertBoard:
    """Of the tables that `user` may see. Three queries, beside those for his roles."""
    shown = Alert.objects.filter(
        table__in=visible_tables(user), fired_at__isnull=False
    ).select_related("table")
    fires = shown.filter(resolved_at__isnull=True).order_by("verdict", "fired_at")
    ended = shown.filter(resolved_at__gte=now - RESOLVED_SHOWN_FOR).order_by("-resolved_at")
    silences = {
        (silence.table_id, silence.check_name): silence
        for silence in Silence.objects.filter(until__gt=now)
    }
    rows = [_row(alert, silences, user) for alert in fires[: FIRING_MAX + 1]]
    rows.sort(key=lambda row: (_ORDER.get(row.verdict, 2), row.fired_at))
    return AlertBoard(
        firing=[row for row in rows[:FIRING_MAX] if row.silence is None],
        silenced=[row for row in rows[:FIRING_MAX] if row.silence is not None],
        resolved=[_row(alert, {}, user) for alert in ended[:RESOLVED_MAX]],
        is_cut=len(rows) > FIRING_MAX,
    )


def alert_row(user: User, alert_id: int, now: datetime) -> AlertRow:
    """One that has fired, on a table that `user` may see. Raises Http404."""
    alert = (
        Alert.objects.filter(pk=alert_id, fired_at__isnull=False, table__in=visible_tables(user))
        .select_related("table")
        .first()
    )
    if alert is None:
        raise Http404(f"there is no alert {alert_id}")
    known = Silence.objects.filter(Q(until__gt=now), table=alert.table, check_name=alert.check_name)
    silences = {(silence.table_id, silence.check_name): silence for silence in known}
    return _row(alert, silences, user)


def _row(alert: Alert, silences: dict[tuple[int, str], Silence], user: User) -> AlertRow:
    silence = silences.get((alert.table_id, alert.check_name))
    assert alert.fired_at is not None, alert
    return AlertRow(
        id=alert.pk,
        slug=alert.table.slug,
        table_name=alert.table.name,
        check=alert.check_name,
        title=alert.title,
        verdict=alert.verdict,
        severity=alert.severity,
        sentence=alert.sentence,
        advice=alert.advice,
        fired_at=alert.fired_at,
        resolved_at=alert.resolved_at,
        silence=SilenceRow(until=silence.until, by=silence.by, reason=silence.reason)
        if silence
        else None,
        may_silence=may(user, Permission.OPERATE, alert.table),
    )
