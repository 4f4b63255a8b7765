"""Kinds of channels: the validation of their addresses, and their form in answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from controlplane.errors import InvalidRequest
from controlplane.monitoring.channels.services import SERVICES, check_service_address
from controlplane.outgoing.addresses import refuse_spelling

Kind = Literal["mail", "webhook", "apprise"]
Format = Literal["sluice", "slack"]
KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"mail": "e-mail", "webhook": "webhook", "apprise": "service"}
)
FORMATS: Final[Mapping[Format, str]] = MappingProxyType(
    {"sluice": "Sluice's own JSON, signed", "slack": "Slack, Mattermost and compatible"}
)
RECEIVERS_MAX: Final = 20


def parse_kind(text: str) -> Kind:
    """Parse the kind of a channel. Raises InvalidRequest."""
    for kind in KINDS:
        if kind == text:
            return kind
    raise InvalidRequest(
        f"the kind of a channel must be one of {', '.join(KINDS)}", given=text[:20]
    )


def parse_format(kind: Kind, text: str) -> Format | None:
    """Parse the body format of a webhook; None for other kinds. Raises InvalidRequest."""
    if kind != "webhook":
        if text:
            raise InvalidRequest("only webhooks have a format", given=text[:20])
        return None
    for form in FORMATS:
        if form == (text or "sluice"):
            return form
    raise InvalidRequest(
        f"the format of a webhook must be one of {', '.join(FORMATS)}", given=text[:20]
    )


def normalize_address(kind: Kind, text: str) -> str:
    """Return the valid address in its stored form, without any request. Raises InvalidRequest."""
    address = text.strip()
    match kind:
        case "mail":
            return ", ".join(parse_mail_receivers(address))
        case "webhook":
            refuse_spelling(address, settings.SLUICE_OUTGOING_ALLOWED)
            return address
        case "apprise":
            check_service_address(address)
            return address


def parse_mail_receivers(text: str) -> list[str]:
    """Parse a list of 1 to `RECEIVERS_MAX` mail addresses. Raises InvalidRequest."""
    if not settings.EMAIL_HOST:
        raise InvalidRequest("this node cannot send mail: set SLUICE_EMAIL_HOST")
    receivers = [word for word in text.replace(",", " ").split() if word]
    if not 1 <= len(receivers) <= RECEIVERS_MAX:
        raise InvalidRequest(f"a channel must have 1 to {RECEIVERS_MAX} mail addresses")
    for receiver in receivers:
        try:
            validate_email(receiver)
        except ValidationError as error:
            raise InvalidRequest("invalid mail address", given=receiver[:80]) from error
    return receivers


def redact_address(kind: Kind, address: str) -> str:
    """Return the address without secrets, which are the paths and queries of webhooks, and
    everything after the scheme of a service.
    """
    match kind:
        case "mail":
            return address[:500]
        case "webhook":
            parts = urlsplit(address)
            return f"{parts.scheme}://{parts.netloc}/…"
        case "apprise":
            scheme = urlsplit(address).scheme
            return f"{scheme}://… ({SERVICES[scheme]})"
