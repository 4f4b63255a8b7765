"""From alerts to messages: who is sent word of one that fires, and of its end.

Called within the transaction that changes the alert, so that neither is there without the other.
One message holds many tables of one rule: the first alert opens it, and those of the channel's
window join it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from controlplane.monitoring.models import Alert, Channel, Message
from controlplane.monitoring.severities import rank
from controlplane.monitoring.silencing import Silences

FIRED: Final = "fired"
RESOLVED: Final = "resolved"
TEST: Final = "test"
WAITING: Final = "waiting"
SENDING: Final = "sending"
SENT: Final = "sent"
DEAD: Final = "dead"
MESSAGE_STATES: Final = (WAITING, SENDING, SENT, DEAD)


def announce_firing(alerts: Iterable[Alert], now: datetime) -> None:
    """Those that fire unsilenced and worse than channels know of yet. No query where none does.

    What was silenced when it fired is announced when the silence is over, if it fires still.
    """
    worse = [
        alert
        for alert in alerts
        if alert.fired_at is not None and rank(alert.severity) > rank(alert.announced_as)
    ]
    if not worse:
        return
    tables = {alert.table_id for alert in worse}
    silences = Silences.holding(now, Q(table__in=tables) | Q(table__isnull=True))
    for alert in worse:
        if silences.over(alert) is not None:
            continue
        for channel in _receivers(alert):
            _add(channel, FIRED, alert, now)
        alert.announced_as = alert.severity
        alert.save(update_fields=["announced_as"])


def announce_end(alert: Alert, now: datetime) -> None:
    """To the channels that were sent word of it, or are being. One that still waited for others of
    its rule says nothing of it any more.
    """
    if not alert.announced_as:
        return
    messages = Message.objects.select_for_update().filter(alerts=alert, about=FIRED)
    informed: dict[int, Channel] = {}
    for message in messages.order_by("pk"):
        if message.state == WAITING and message.attempts == 0:
            message.alerts.remove(alert)
            if not message.alerts.exists():
                message.delete()
        elif message.state != DEAD:
            informed[message.channel_id] = message.channel
    for channel in informed.values():
        if channel.sends_resolved and not channel.is_paused:
            _add(channel, RESOLVED, alert, now)


def _receivers(alert: Alert) -> list[Channel]:
    """Locked, so that two processes open no two messages of one window."""
    rows = Channel.objects.select_for_update().filter(is_paused=False).order_by("pk")
    return [
        channel
        for channel in rows
        if rank(alert.severity) >= rank(channel.severity_min)
        and (not channel.checks or alert.check_name in channel.checks)
        and (not channel.namespaces or alert.table.namespace in channel.namespaces)
    ]


def _add(channel: Channel, about: str, alert: Alert, now: datetime) -> None:
    is_open = Q(state=WAITING, attempts=0, due_at__gt=now)
    messages = Message.objects.select_for_update().filter(
        is_open, channel=channel, about=about, check_name=alert.check_name
    )
    message = messages.first() or Message.objects.create(
        channel=channel,
        about=about,
        check_name=alert.check_name,
        state=WAITING,
        opened_at=now,
        due_at=now + timedelta(seconds=channel.group_s),
    )
    message.alerts.add(alert)
