"""Channels and their messages, as plain rows without addresses and secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import Http404

from controlplane.monitoring.models import Channel, Delivery, Message
from controlplane.tables.access import Permission, may_everywhere

MESSAGES_MAX: Final = 100
_DELIVERIES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    id: int
    name: str
    kind: str
    body_format: str
    address: str
    """The address without secrets."""
    severity_min: str
    checks: list[str]
    namespaces: list[str]
    group_s: int
    sends_resolved: bool
    is_paused: bool
    made_by: str
    made_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    number: int
    state: str
    answer_code: int | None
    problem: str
    began_at: datetime
    ended_at: datetime | None
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    id: str
    """The id that receivers get."""
    channel: str
    channel_id: int
    about: str
    check: str
    state: str
    opened_at: datetime
    due_at: datetime | None
    """The next attempt; None if there is none."""
    alerts: int
    deliveries: list[DeliveryRow]
    """Its attempts, in order."""


def require_admin(user: User) -> None:
    """Raise PermissionDenied unless the user is an admin everywhere, because channels receive
    alerts of every table.
    """
    if not may_everywhere(user, Permission.ADMINISTER):
        raise PermissionDenied("this requires the admin role")


def list_channels(user: User) -> list[ChannelRow]:
    """List all channels by name. Raises PermissionDenied."""
    require_admin(user)
    return [_channel(channel) for channel in Channel.objects.order_by("name")]


def get_channel_row(user: User, channel_id: int) -> ChannelRow:
    """Return a channel, without its secrets. Raises PermissionDenied, Http404."""
    require_admin(user)
    channel = Channel.objects.filter(pk=channel_id).first()
    if channel is None:
        raise Http404(f"channel {channel_id} not found")
    return _channel(channel)


def list_messages(user: User, *, channel_id: int | None = None) -> list[MessageRow]:
    """List messages, newest first, with their attempts. Two queries. Raises PermissionDenied."""
    require_admin(user)
    messages = Message.objects.select_related("channel").annotate(about_alerts=Count("alerts"))
    if channel_id is not None:
        messages = messages.filter(channel=channel_id)
    newest = list(messages.order_by("-opened_at", "-pk")[:MESSAGES_MAX])
    deliveries: dict[int, list[DeliveryRow]] = {}
    attempts = Delivery.objects.filter(message__in=[message.pk for message in newest])
    for delivery in attempts.order_by("number")[:_DELIVERIES_MAX]:
        deliveries.setdefault(delivery.message_id, []).append(_delivery(delivery))
    return [_message(message, deliveries.get(message.pk, [])) for message in newest]


def _channel(channel: Channel) -> ChannelRow:
    return ChannelRow(
        id=channel.pk,
        name=channel.name,
        kind=channel.kind,
        body_format=channel.body_format,
        address=channel.shown_address,
        severity_min=channel.severity_min,
        checks=channel.checks,
        namespaces=channel.namespaces,
        group_s=channel.group_s,
        sends_resolved=channel.sends_resolved,
        is_paused=channel.is_paused,
        made_by=channel.made_by,
        made_at=channel.made_at,
    )


def _message(message: Message, deliveries: list[DeliveryRow]) -> MessageRow:
    return MessageRow(
        id=str(message.public_id),
        channel=message.channel.name,
        channel_id=message.channel_id,
        about=message.about,
        check=message.check_name,
        state=message.state,
        opened_at=message.opened_at,
        due_at=message.due_at if message.state == "waiting" else None,
        alerts=message.about_alerts,  # type: ignore[attr-defined]  # of the query
        deliveries=deliveries,
    )


def _delivery(delivery: Delivery) -> DeliveryRow:
    return DeliveryRow(
        number=delivery.number,
        state=delivery.state,
        answer_code=delivery.answer_code,
        problem=delivery.problem,
        began_at=delivery.began_at,
        ended_at=delivery.ended_at,
        next_at=delivery.next_at,
    )
