"""Sending of a message, in one attempt, by the kind of its channel."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from smtplib import SMTPException
from typing import Final, assert_never

from django.conf import settings
from django.core.mail import EmailMessage

from controlplane.encryption import CHANNELS
from controlplane.monitoring.channels.bodies import MessageContent, build_content, to_slack_body
from controlplane.monitoring.channels.kinds import parse_kind, parse_mail_receivers
from controlplane.monitoring.channels.services import send_to_service
from controlplane.monitoring.models import Channel, Message
from controlplane.outgoing.sending import Outgoing, SendFailed, configured

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  (what a secret begins with)
_ACCEPTED: Final = range(200, 300)


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
