"""Kinds of channels: which addresses each takes, and how an answer shows one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from controlplane.errors import InvalidRequest
from controlplane.monitoring.channels.services import SERVICES, refuse_service_address
from controlplane.outgoing.addresses import refuse_spelling

Kind = Literal["mail", "webhook", "apprise"]
Format = Literal["sluice", "slack"]
KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"mail": "e-mail", "webhook": "webhook", "apprise": "service"}
)
FORMATS: Final[Mapping[Format, str]] = MappingProxyType(
    {"sluice": "Sluice's own JSON, signed", "slack": "as Slack takes it, Mattermost and others too"}
)
RECEIVERS_MAX: Final = 20


def read_kind(text: str) -> Kind:
    """The kind of a channel by its name. Raises InvalidRequest."""
    for kind in KINDS:
        if kind == text:
            return kind
    raise InvalidRequest(f"a channel is one of {', '.join(KINDS)}", given=text[:20])


def read_format(kind: Kind, text: str) -> Format | None:
    """How a webhook's body looks; None for the other kinds. Raises InvalidRequest."""
    if kind != "webhook":
        if text:
            raise InvalidRequest("only a webhook has a format", given=text[:20])
        return None
    for form in FORMATS:
        if form == (text or "sluice"):
            return form
    raise InvalidRequest(f"a webhook's format is one of {', '.join(FORMATS)}", given=text[:20])


def checked_address(kind: Kind, text: str) -> str:
    """As it is kept. Nothing is resolved or sent. Raises InvalidRequest."""
    address = text.strip()
    match kind:
        case "mail":
            return ", ".join(mail_receivers(address))
        case "webhook":
            refuse_spelling(address, settings.SLUICE_OUTGOING_ALLOWED)
            return address
        case "apprise":
            refuse_service_address(address)
            return address


def mail_receivers(text: str) -> list[str]:
    """The addresses in a list of 1 to `RECEIVERS_MAX`. Raises InvalidRequest."""
    if not settings.EMAIL_HOST:
        raise InvalidRequest("this node sends no mail: its operator sets SLUICE_EMAIL_HOST")
    receivers = [word for word in text.replace(",", " ").split() if word]
    if not 1 <= len(receivers) <= RECEIVERS_MAX:
        raise InvalidRequest(f"a channel has 1 to {RECEIVERS_MAX} mail addresses")
    for receiver in receivers:
        try:
            validate_email(receiver)
        except ValidationError as error:
            raise InvalidRequest("this is no mail address", given=receiver[:80]) from error
    return receivers


def shown_address(kind: Kind, address: str) -> str:
    """Without what opens it: paths and queries of webhooks are secrets, and so is everything behind
    the name of a service.
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
