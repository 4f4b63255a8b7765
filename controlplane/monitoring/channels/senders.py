"""Sending of a message, in one attempt, by the kind of its channel, and the content of messages: a
title, plain text, and the JSON of webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from smtplib import SMTPException
from typing import Any, Final, assert_never

from django.conf import settings
from django.core.mail import EmailMessage

from controlplane.encryption import CHANNELS
from controlplane.monitoring.channels.kinds import parse_kind, parse_mail_receivers
from controlplane.monitoring.channels.notifications import RESOLVED, TEST
from controlplane.monitoring.channels.services import send_to_service
from controlplane.monitoring.models import Alert, Channel, Message
from controlplane.monitoring.severities import get_rank
from controlplane.outgoing.sending import Outgoing, SendFailed, configured

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  (what a secret begins with)
_ACCEPTED: Final = range(200, 300)
LISTED_MAX: Final = 50
"""The number of listed alerts; the others are counted."""
_COLOURS: Final = {"critical": "#D55E00", "warning": "#E69F00", "info": "#0072B2"}
_RESOLVED_COLOUR: Final = "#009E73"


class DeliveryRejected(Exception):
    """The receiver answered with a status other than 2xx."""

    def __init__(self, status: int) -> None:
        self.status = status
        redirect = "; redirects are not followed" if 300 <= status < 400 else ""
        super().__init__(f"the receiver answered {status}{redirect}")


def send(message: Message, outgoing: Outgoing | None = None) -> int | None:
    """Send a message and return the status of the answer; None for mail.

    Raises DeliveryRejected, SendFailed if another attempt may succeed; InvalidRequest (such as
    AddressRefused) and SealBroken if none can.
    """
    outgoing = outgoing or configured()
    channel, words = message.channel, build_content(message)
    address = CHANNELS.open(channel.sealed_address)
    kind = parse_kind(channel.kind)
    match kind:
        case "mail":
            _send_mail(address, message, words)
            return None
        case "webhook":
            return _check_status(_post(channel, address, message, words, outgoing))
        case "apprise":
            return _check_status(
                send_to_service(
                    address,
                    title=words.title,
                    body=words.text,
                    severity=words.severity,
                    outgoing=outgoing,
                )
            )
    assert_never(kind)


def compute_signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, v1."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _post(
    channel: Channel, address: str, message: Message, words: MessageContent, outgoing: Outgoing
) -> int:
    fields = to_slack_body(words) if channel.body_format == "slack" else words.json
    body = json.dumps(fields, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "Sluice"}
    if channel.body_format == "sluice":
        headers |= _sign(channel, message, body)
    return outgoing.request("POST", address, body=body, headers=headers).status


def _sign(channel: Channel, message: Message, body: bytes) -> Mapping[str, str]:
    message_id, timestamp = f"msg_{message.public_id.hex}", str(int(time.time()))
    secret = CHANNELS.open(channel.sealed_secret)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": compute_signature(secret, message_id, timestamp, body),
    }


def _check_status(status: int) -> int:
    if status not in _ACCEPTED:
        raise DeliveryRejected(status)
    return status


def _send_mail(address: str, message: Message, words: MessageContent) -> None:
    mail = EmailMessage(
        subject=words.title,
        body=words.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=parse_mail_receivers(address),
        headers={"Message-ID": f"<{message.public_id}@sluice>", "Auto-Submitted": "auto-generated"},
    )
    try:
        mail.send()
    except (OSError, SMTPException) as error:
        raise SendFailed(f"the mail server: {type(error).__name__}: {error}"[:300]) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The content of a message for all kinds of channels."""

    title: str
    """One line."""
    text: str
    severity: str
    """The highest severity of its alerts, or `resolved`."""
    json: dict[str, Any]


def build_content(message: Message) -> MessageContent:
    alerts = list(message.alerts.select_related("table").order_by("table__name", "pk"))
    severity = max((alert.severity for alert in alerts), key=get_rank, default="info")
    listed = alerts[:LISTED_MAX]
    lines = [_line(alert) for alert in listed]
    if len(alerts) > LISTED_MAX:
        lines.append(f"and {len(alerts) - LISTED_MAX} more")
    title = _title(message, alerts, severity)
    if message.about == TEST:
        lines = ["This is a test message of this channel."]
    url = f"{settings.SLUICE_PUBLIC_URL}/alerts"
    return MessageContent(
        title=title,
        text="\n".join([*lines, url]),
        severity="resolved" if message.about == RESOLVED else severity,
        json={
            "id": str(message.public_id),
            "about": message.about,
            "check": message.check_name,
            "title": title,
            "severity": severity,
            "opened_at": _format_time(message.opened_at),
            "url": url,
            "count": len(alerts),
            "alerts": [_alert(alert) for alert in listed],
        },
    )


def to_slack_body(content: MessageContent) -> dict[str, Any]:
    """Format the content for incoming webhooks of Slack, Mattermost and Rocket.Chat."""
    colour = _RESOLVED_COLOUR if content.severity == "resolved" else _COLOURS[content.severity]
    title, text = _escape(content.title), _escape(content.text)
    return {
        "text": title,
        "attachments": [{"color": colour, "fallback": title, "text": text}],
    }


def _escape(text: str) -> str:
    """Escape mentions and links, because names of tables and streams are untrusted text."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")


def _title(message: Message, alerts: list[Alert], severity: str) -> str:
    if message.about == TEST:
        return "[test] A message of Sluice"
    mark = RESOLVED if message.about == RESOLVED else severity
    first = alerts[0] if alerts else None
    check = first.title if first else message.check_name
    where = first.table.name if first and len(alerts) == 1 else f"{len(alerts)} tables"
    return " ".join(f"[{mark}] {where}: {check}".split())[:200]


def _line(alert: Alert) -> str:
    state = f" (resolved {_format_time(alert.resolved_at)})" if alert.resolved_at else ""
    advice = f" {alert.advice}" if alert.advice and not alert.resolved_at else ""
    return " ".join(f"{alert.table.name}: {alert.sentence}.{advice}{state}".split())


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.pk,
        "table": alert.table.slug,
        "namespace": alert.table.namespace,
        "name": alert.table.name,
        "check": alert.check_name,
        "title": alert.title,
        "severity": alert.severity,
        "verdict": alert.verdict,
        "sentence": alert.sentence,
        "advice": alert.advice,
        "fired_at": _format_time(alert.fired_at),
        "resolved_at": _format_time(alert.resolved_at),
        "url": f"{settings.SLUICE_PUBLIC_URL}/t/{alert.table.slug}",
    }


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
