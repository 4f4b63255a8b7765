"""What a provider says of itself: its addresses, asked for when somebody signs in, and kept for a
while.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import requests
from django.conf import settings
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.settings.oidc import OidcSettings

log = logging.getLogger(__name__)

TIMEOUT_S = 10
KEPT_S = 600
_kept: dict[str, tuple[float, Provider]] = {}


class LoginRefused(ControlPlaneError):
    """Nobody was signed in. The sentence is for whoever tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where it does what."""

    authorization: str
    token: str
    keys: str
    userinfo: str
    """Empty for none."""
    end_session: str
    """Empty for none."""
    takes_basic: bool
    """Whether the client's secret goes into a header; else it goes into the body."""


def oidc_settings() -> OidcSettings | None:
    """None where nobody signs in by a provider."""
    configured: OidcSettings | None = settings.SLUICE_OIDC
    return configured


def provider_of(oidc: OidcSettings) -> Provider:
    """What it says of itself, asked again after `KEPT_S`. Raises LoginRefused while it does not
    answer, or where it says that it is another one.
    """
    now = timezone.now().timestamp()
    fetched_at, known = _kept.get(oidc.issuer, (0.0, None))
    if known is not None and now - fetched_at < KEPT_S:
        return known
    address = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        answer = requests.get(address, timeout=TIMEOUT_S, allow_redirects=False)
        answer.raise_for_status()
        provider = _provider(answer.json(), oidc)
    except (requests.RequestException, ValueError, KeyError) as error:
        log.warning("the provider does not describe itself: address=%s error=%r", address, error)
        raise LoginRefused(
            f"{oidc.name} does not answer; try again, or sign in otherwise"
        ) from error
    _kept[oidc.issuer] = now, provider
    return provider


def _provider(said: Any, oidc: OidcSettings) -> Provider:
    """Raises ValueError, KeyError."""
    if said["issuer"] != oidc.issuer:
        raise ValueError(f"it says that it is {said['issuer']!r}")
    methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Provider(
        authorization=said["authorization_endpoint"],
        token=said["token_endpoint"],
        keys=said["jwks_uri"],
        userinfo=said.get("userinfo_endpoint", ""),
        end_session=said.get("end_session_endpoint", ""),
        takes_basic="client_secret_post" not in methods,
    )
