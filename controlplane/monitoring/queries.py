"""Alerts that fire, are silenced or were resolved, as plain rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.http import Http404

from controlplane.monitoring.alert_rules import TITLES
from controlplane.monitoring.models import Alert, Silence
from controlplane.monitoring.silences import Reach, Silences, get_reach, match_silences
from controlplane.tables.access import (
    Permission,
    may,
    may_everywhere,
    may_in_namespace,
    visible_tables,
)
from controlplane.tables.models import Table

FIRING_MAX = 500
RESOLVED_MAX = 100
RESOLVED_SHOWN_FOR = timedelta(days=1)
_ORDER = {"bad": 0, "warn": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRow:
    until: datetime
    by: str
    reason: str
    reach: Reach
    namespace: str
    """The namespace, if it covers one."""
    check: str
    """The title of the check; empty for every check."""
    may_end: bool


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
    """Unsilenced alerts: the worst first, then the oldest."""
    silenced: list[AlertRow]
    wide_silences: list[SilenceRow]
    """Silences of all tables and of visible namespaces, with or without alerts."""
    resolved: list[AlertRow]
    """Alerts that were resolved in the last day, newest first."""
    is_cut: bool
    """True if more alerts fire than are listed."""


def load_alert_board(user: User, now: datetime, firing_max: int = FIRING_MAX) -> AlertBoard:
    """Return alerts of the tables that `user` may see. Three queries, next to those for roles."""
    visible = Alert.objects.filter(
        table__in=visible_tables(user), fired_at__isnull=False
    ).select_related("table")
    fires = visible.filter(resolved_at__isnull=True).order_by("verdict", "fired_at")
    ended = visible.filter(resolved_at__gte=now - RESOLVED_SHOWN_FOR).order_by("-resolved_at")
    silences = Silences.load(now)
    rows = [_row(alert, silences, user) for alert in fires[: firing_max + 1]]
    rows.sort(key=lambda row: (_ORDER.get(row.verdict, 2), row.fired_at))
    return AlertBoard(
        firing=[row for row in rows[:firing_max] if row.silence is None],
        silenced=[row for row in rows[:firing_max] if row.silence is not None],
        wide_silences=[
            _silence_row(silence, user)
            for silence in silences.wide
            if not silence.namespace or may_in_namespace(user, Permission.VIEW, silence.namespace)
        ],
        resolved=[_row(alert, Silences(()), user) for alert in ended[:RESOLVED_MAX]],
        is_cut=len(rows) > firing_max,
    )


def get_alert_row(user: User, alert_id: int, now: datetime) -> AlertRow:
    """Return a fired alert of a table that `user` may see. Raises Http404."""
    alert = (
        Alert.objects.filter(pk=alert_id, fired_at__isnull=False, table__in=visible_tables(user))
        .select_related("table")
        .first()
    )
    if alert is None:
        raise Http404(f"alert {alert_id} not found")
    table = alert.table
    of_alert = match_silences(table=table, namespace=table.namespace, check=alert.check_name)
    return _row(alert, Silences.load(now, of_alert), user)


def _row(alert: Alert, silences: Silences, user: User) -> AlertRow:
    silence = silences.find(alert)
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
        silence=_silence_row(silence, user, alert.table) if silence is not None else None,
        may_silence=may(user, Permission.OPERATE, alert.table),
    )


def _silence_row(silence: Silence, user: User, table: Table | None = None) -> SilenceRow:
    """Return the row of a silence; `table` is that of the alert."""
    return SilenceRow(
        until=silence.until,
        by=silence.by,
        reason=silence.reason,
        reach=get_reach(silence),
        namespace=silence.namespace,
        check=TITLES.get(silence.check_name, silence.check_name),
        may_end=can_silence(user, get_reach(silence), table, silence.namespace),
    )


def can_silence(user: User, reach: Reach, table: Table | None, namespace: str) -> bool:
    """Return whether the user is an operator in the scope of a silence. No query if the roles and
    the table are loaded.
    """
    if reach == "everywhere":
        return may_everywhere(user, Permission.OPERATE)
    if reach == "namespace":
        return may_in_namespace(user, Permission.OPERATE, namespace)
    return table is not None and may(user, Permission.OPERATE, table)
