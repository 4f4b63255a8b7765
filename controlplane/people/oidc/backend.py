"""Authentication backend for the provider's answer, with the validation of id tokens.

The library checks only signature and nonce. So PyJWT checks here the configured algorithm, issuer,
audience, times and nonce, and that id token and user info have the same subject.
"""

from __future__ import annotations

import hmac
import logging
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.urls import reverse
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings

from controlplane.people.actions.provider_logins import do_sign_in
from controlplane.people.oidc.provider import (
    TIMEOUT_S,
    LoginRejected,
    get_oidc_settings,
    load_provider,
)
from controlplane.settings.oidc import OidcSettings

log = logging.getLogger(__name__)

CALLBACK = "oidc-callback"
LEEWAY_S = 30
"""The allowed difference between the two clocks."""
ID_TOKEN = "oidc_id_token"  # noqa: S105 - a key of the session
"""The session key of the id token, which identifies the provider's session at logout."""
REQUIRED = ["exp", "iat", "iss", "aud", "sub"]


def get_redirect_uri() -> str:
    """Return the URL that is registered at the provider, whatever host a request names."""
    return f"{settings.SLUICE_PUBLIC_URL.rstrip('/')}{reverse(CALLBACK)}"


def get_library_setting(name: str, *default: Any) -> Any:
    """Return a setting of the library, derived from the settings of Sluice.

    Raises LoginRejected if no provider is configured, or while the provider does not answer.
    """
    oidc = get_oidc_settings()
    if oidc is None:
        raise LoginRejected("single sign-on is not configured")
    own = {
        "OIDC_RP_CLIENT_ID": oidc.client_id,
        "OIDC_RP_SCOPES": oidc.scopes,
        "OIDC_RP_SIGN_ALGO": oidc.algorithm,
        "OIDC_USE_PKCE": True,
        "OIDC_USE_NONCE": True,
        "OIDC_TIMEOUT": TIMEOUT_S,
        "OIDC_AUTHENTICATION_CALLBACK_URL": CALLBACK,
        "LOGIN_REDIRECT_URL_FAILURE": settings.LOGIN_URL,
    }
    if name in own:
        return own[name]
    if name == "OIDC_OP_AUTHORIZATION_ENDPOINT":
        return load_provider(oidc).authorization
    if name == "OIDC_TOKEN_USE_BASIC_AUTH":
        return load_provider(oidc).takes_basic
    return import_from_settings(name, *default)


class OidcBackend(OIDCAuthenticationBackend):
    """Backend for logins with a code whose state the callback has checked. It accepts no other
    credentials, so password forms never reach it.
    """

    get_settings = staticmethod(get_library_setting)

    def __init__(self) -> None:
        """Create a backend without any request: each request with a session creates one."""
        self.UserModel = User

    def authenticate(self, request: HttpRequest, *, nonce: str, code_verifier: str) -> User:
        """Return the user of the provider's answer. Raises LoginRejected."""
        oidc = get_oidc_settings()
        if oidc is None:
            raise LoginRejected("single sign-on is not configured")
        provider = load_provider(oidc)
        self.OIDC_OP_TOKEN_ENDPOINT = provider.token
        self.OIDC_OP_JWKS_ENDPOINT = provider.keys
        self.OIDC_OP_USER_ENDPOINT = provider.userinfo
        try:
            tokens = self.get_token(
                {
                    "client_id": oidc.client_id,
                    "client_secret": oidc.client_secret,
                    "grant_type": "authorization_code",
                    "code": request.GET["code"],
                    "redirect_uri": get_redirect_uri(),
                    "code_verifier": code_verifier,
                }
            )
            claims = self.verify_token(tokens["id_token"], nonce=nonce)
            if provider.userinfo:
                claims = self._with_userinfo(tokens, claims)
        except (requests.RequestException, jwt.PyJWTError, SuspiciousOperation) as error:
            log.warning("login through the provider rejected: error=%s", error)
            raise LoginRejected(
                f"the answer of {oidc.name} is not trusted: sign in again"
            ) from error
        except (KeyError, ValueError, TypeError) as error:
            log.warning(
                "login through the provider rejected, its answer is invalid: error=%r", error
            )
            raise LoginRejected(f"the answer of {oidc.name} is invalid: try again") from error
        user = do_sign_in(claims, oidc)
        request.session[ID_TOKEN] = tokens["id_token"]
        return user

    def verify_token(self, token: str, **options: Any) -> dict[str, Any]:
        """Return the claims of an id token. Raises PyJWTError, SuspiciousOperation, KeyError."""
        oidc = get_oidc_settings()
        assert oidc is not None
        if jwt.get_unverified_header(token)["alg"] != oidc.algorithm:
            raise SuspiciousOperation("the id token is signed with an unexpected algorithm")
        key = self.retrieve_matching_jwk(token)
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[oidc.algorithm],
            audience=oidc.client_id,
            issuer=oidc.issuer,
            leeway=LEEWAY_S,
            options={"require": REQUIRED},
        )
        _check_authorized_party(claims, oidc)
        if not hmac.compare_digest(str(claims.get("nonce", "")), options["nonce"]):
            raise SuspiciousOperation("the nonce of the id token belongs to another login")
        return claims

    def get_user(self, user_id: int) -> User | None:
        """Return the user; None if deactivated, which the library does not check."""
        user = ModelBackend.get_user(self, user_id)
        assert user is None or isinstance(user, User), user
        return user

    def _with_userinfo(self, tokens: dict[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of the id token and those of the user info of the same subject."""
        more = self.get_userinfo(tokens["access_token"], tokens["id_token"], claims)
        if more["sub"] != claims["sub"]:
            raise SuspiciousOperation("the user info has another subject than the id token")
        return {**more, **claims}


def _check_authorized_party(claims: dict[str, Any], oidc: OidcSettings) -> None:
    """Check the authorized party, which a token for several audiences must contain."""
    audiences = claims["aud"]
    is_of_several = isinstance(audiences, list) and len(audiences) > 1
    if claims.get("azp", oidc.client_id) != oidc.client_id or (
        is_of_several and "azp" not in claims
    ):
        raise SuspiciousOperation("the id token was issued for another client")
