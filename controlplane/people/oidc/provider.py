"""The discovery document of a provider: its addresses, fetched at a login and cached."""

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
CACHE_S = 600
_cache: dict[str, tuple[float, Provider]] = {}


class LoginRejected(ControlPlaneError):
    """A login failed. The message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The endpoints of a provider."""

    authorization: str
    token: str
    keys: str
    userinfo: str
    """Empty for none."""
    end_session: str
    """Empty for none."""
    takes_basic: bool
    """True if the client secret is sent in a header instead of the body."""


def get_oidc_settings() -> OidcSettings | None:
    """Return the settings of the provider; None if there is none."""
    configured: OidcSettings | None = settings.SLUICE_OIDC
    return configured


def load_provider(oidc: OidcSettings) -> Provider:
    """Return the endpoints of the provider, cached for `CACHE_S`.

    Raises LoginRejected while the provider does not answer, or if it reports another issuer.
    """
    now = timezone.now().timestamp()
    fetched_at, cached = _cache.get(oidc.issuer, (0.0, None))
    if cached is not None and now - fetched_at < CACHE_S:
        return cached
    address = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        answer = requests.get(address, timeout=TIMEOUT_S, allow_redirects=False)
        answer.raise_for_status()
        provider = _parse_provider(answer.json(), oidc)
    except (requests.RequestException, ValueError, KeyError) as error:
        log.warning(
            "the discovery document of the provider cannot be read: address=%s error=%r",
            address,
            error,
        )
        raise LoginRejected(
            f"{oidc.name} does not answer: try again, or sign in with a password"
        ) from error
    _cache[oidc.issuer] = now, provider
    return provider


def _parse_provider(document: Any, oidc: OidcSettings) -> Provider:
    """Parse the document. Raises ValueError, KeyError."""
    if document["issuer"] != oidc.issuer:
        raise ValueError(f"the issuer must be {oidc.issuer!r}, not {document['issuer']!r}")
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Provider(
        authorization=document["authorization_endpoint"],
        token=document["token_endpoint"],
        keys=document["jwks_uri"],
        userinfo=document.get("userinfo_endpoint", ""),
        end_session=document.get("end_session_endpoint", ""),
        takes_basic="client_secret_post" not in methods,
    )
