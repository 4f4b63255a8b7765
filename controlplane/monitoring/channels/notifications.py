"""Messages about alerts that fire or are resolved.

Called in the transaction that changes the alert, so that alert and message are stored together. A
message contains many tables of one rule: the first alert opens it, and later alerts within the
group wait of the channel are added.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from controlplane.monitoring.models import Alert, Channel, Message
from controlplane.monitoring.severities import get_rank
from controlplane.monitoring.silences import Silences

FIRED: Final = "fired"
RESOLVED: Final = "resolved"
TEST: Final = "test"
WAITING: Final = "waiting"
SENDING: Final = "sending"
SENT: Final = "sent"
DEAD: Final = "dead"
MESSAGE_STATES: Final = (WAITING, SENDING, SENT, DEAD)


def announce_firing(alerts: Iterable[Alert], now: datetime) -> None:
    """Notify channels of unsilenced alerts whose severity is higher than the last notification.

    No query if there are none. An alert that fired while silenced is announced after the silence
    if it still fires.
    """
    worse = [
        alert
        for alert in alerts
        if alert.fired_at is not None and get_rank(alert.severity) > get_rank(alert.announced_as)
    ]
    if not worse:
        return
    tables = {alert.table_id for alert in worse}
    silences = Silences.load(now, Q(table__in=tables) | Q(table__isnull=True))
    for alert in worse:
        if silences.find(alert) is not None:
            continue
        for channel in _receivers(alert):
            _add(channel, FIRED, alert, now)
        alert.announced_as = alert.severity
        alert.save(update_fields=["announced_as"])


def announce_end(alert: Alert, now: datetime) -> None:
    """Notify the channels that received, or are receiving, the alert. It is removed from messages
    that have not been sent yet.
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
    """Return the channels for an alert, locked, so that two processes do not open two messages."""
    rows = Channel.objects.select_for_update().filter(is_paused=False).order_by("pk")
    return [
        channel
        for channel in rows
        if get_rank(alert.severity) >= get_rank(channel.severity_min)
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
