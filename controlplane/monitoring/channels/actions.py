"""Actions of admins on channels. Each is recorded in the audit log, without address and secret."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.encryption import CHANNELS
from controlplane.errors import InvalidRequest
from controlplane.monitoring.alert_rules import TITLES
from controlplane.monitoring.channels.kinds import (
    normalize_address,
    parse_format,
    parse_kind,
    redact_address,
)
from controlplane.monitoring.channels.notifications import TEST, WAITING
from controlplane.monitoring.channels.queries import ChannelRow, get_channel_row, require_admin
from controlplane.monitoring.channels.senders import SECRET_PREFIX
from controlplane.monitoring.models import Channel, Message
from controlplane.monitoring.severities import parse_severity
from controlplane.tables.models import Table

NAME_CHARS_MAX: Final = 64
GROUP_S_MAX: Final = 24 * 3600
CHANNELS_MAX: Final = 100
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """The requested settings of a channel."""

    name: str
    kind: str
    address: str = ""
    """Mail addresses, a URL, or an address of apprise. Empty in a change to keep it."""
    body_format: str = ""
    """The format of a webhook: `sluice` or `slack`."""
    severity_min: str = "warning"
    checks: list[str] = field(default_factory=list)
    """Only these checks; all if empty. `namespaces` likewise."""
    namespaces: list[str] = field(default_factory=list)
    group_s: int = 60
    sends_resolved: bool = True
    is_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChannel:
    channel: ChannelRow
    secret: str
    """The secret for receivers of a signed webhook, returned only once; else empty."""


def do_create_channel(spec: ChannelSpec, *, by: User) -> NewChannel:
    """Create a channel. Raises PermissionDenied, InvalidRequest."""
    require_admin(by)
    if not spec.address.strip():
        raise InvalidRequest("a channel requires an address")
    fields = _validate(spec)
    secret = _create_secret() if fields["body_format"] == "sluice" else ""
    with transaction.atomic():
        if Channel.objects.count() >= CHANNELS_MAX:
            raise InvalidRequest(f"there are {CHANNELS_MAX} channels; delete one first")
        if Channel.objects.filter(name=fields["name"]).exists():
            raise InvalidRequest("another channel already has this name", name=fields["name"])
        channel = Channel.objects.create(
            **fields,
            sealed_secret=CHANNELS.close(secret) if secret else "",
            made_by=by.get_username(),
        )
        _record(by, "channel.create", channel)
    return NewChannel(channel=get_channel_row(by, channel.pk), secret=secret)


def do_change_channel(
    channel_id: int, spec: ChannelSpec, *, by: User, wants_new_secret: bool = False
) -> NewChannel:
    """Change a channel, except its kind. Raises PermissionDenied, Http404, InvalidRequest."""
    require_admin(by)
    with transaction.atomic():
        channel = _lock_channel(channel_id)
        if spec.kind != channel.kind:
            raise InvalidRequest(
                "the kind of a channel cannot change: create another channel", kind=channel.kind
            )
        fields = _validate(spec)
        if Channel.objects.filter(name=fields["name"]).exclude(pk=channel_id).exists():
            raise InvalidRequest("another channel already has this name", name=fields["name"])
        is_signed = fields["body_format"] == "sluice"
        needs_secret = is_signed and (wants_new_secret or not channel.sealed_secret)
        secret = _create_secret() if needs_secret else ""
        if secret:
            fields["sealed_secret"] = CHANNELS.close(secret)
        for name, content in fields.items():
            setattr(channel, name, content)
        channel.save()
        _record(by, "channel.change", channel, has_new_secret=bool(secret))
    return NewChannel(channel=get_channel_row(by, channel_id), secret=secret)


def do_delete_channel(channel_id: int, *, by: User) -> None:
    """Delete a channel with its messages, also unsent ones. Raises PermissionDenied, Http404."""
    require_admin(by)
    with transaction.atomic():
        channel = _lock_channel(channel_id)
        _record(by, "channel.delete", channel)
        channel.delete()


def do_test_channel(channel_id: int, *, by: User) -> str:
    """Send a test message within seconds, also through a paused channel, and return its id.

    Raises PermissionDenied, Http404.
    """
    require_admin(by)
    now = timezone.now()
    with transaction.atomic():
        channel = _lock_channel(channel_id)
        message = Message.objects.create(
            channel=channel, about=TEST, state=WAITING, opened_at=now, due_at=now
        )
        _record(by, "channel.test", channel, message=str(message.public_id))
    return str(message.public_id)


def _validate(wish: ChannelSpec) -> dict[str, Any]:
    """Return the columns of the row, without an address if none is set. Raises InvalidRequest."""
    name = " ".join(wish.name.split())
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InvalidRequest(f"the name of a channel must have 1 to {NAME_CHARS_MAX} characters")
    if not 0 <= wish.group_s <= GROUP_S_MAX:
        raise InvalidRequest(f"the group wait must be 0 to {GROUP_S_MAX} s", given=wish.group_s)
    if unknown := sorted(set(wish.checks) - set(TITLES)):
        raise InvalidRequest("health check not found", check=unknown[0][:64])
    namespaces = (
        set(Table.objects.values_list("namespace", flat=True)) if wish.namespaces else set()
    )
    if missing := sorted(set(wish.namespaces) - namespaces):
        raise InvalidRequest("this namespace has no tables", namespace=missing[0][:64])
    kind = parse_kind(wish.kind)
    fields: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "body_format": parse_format(kind, wish.body_format) or "",
        "severity_min": parse_severity(wish.severity_min),
        "checks": sorted(set(wish.checks)),
        "namespaces": sorted(set(wish.namespaces)),
        "group_s": wish.group_s,
        "sends_resolved": wish.sends_resolved,
        "is_paused": wish.is_paused,
    }
    if wish.address.strip():
        address = normalize_address(kind, wish.address)
        fields["sealed_address"] = CHANNELS.close(address)
        fields["shown_address"] = redact_address(kind, address)
    return fields


def _lock_channel(channel_id: int) -> Channel:
    channel = Channel.objects.select_for_update().filter(pk=channel_id).first()
    if channel is None:
        raise Http404(f"channel {channel_id} not found")
    return channel


def _create_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _record(by: User, what: str, channel: Channel, **details: object) -> None:
    do_record(
        who=by.get_username(),
        what=what,
        subject=channel.name,
        result="done",
        details={
            "kind": channel.kind,
            "address": channel.shown_address,
            "severity_min": channel.severity_min,
            "is_paused": channel.is_paused,
            **details,
        },
    )
