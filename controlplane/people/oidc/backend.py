"""From the provider's answer to a user: what an id token must be before anything of it is believed.

The library checks its signature and nonce only, so all of that is done here, by PyJWT: the one
algorithm that is configured, issuer, audience, times, nonce, and that both answers speak of the
same subject.
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
from controlplane.people.oidc.provider import TIMEOUT_S, LoginRefused, oidc_settings, provider_of
from controlplane.settings.oidc import OidcSettings

log = logging.getLogger(__name__)

CALLBACK = "oidc-callback"
LEEWAY_S = 30
"""By which the two clocks may differ."""
ID_TOKEN = "oidc_id_token"  # noqa: S105 - a key of the session
"""In the session of whoever came by the provider: it says there whose session is to end."""
REQUIRED = ["exp", "iat", "iss", "aud", "sub"]


def redirect_uri() -> str:
    """As it is registered at the provider; not made of what a request calls this host."""
    return f"{settings.SLUICE_PUBLIC_URL.rstrip('/')}{reverse(CALLBACK)}"


def library_setting(name: str, *default: Any) -> Any:
    """What the library is told, of what Sluice is told. Raises LoginRefused while the provider does
    not answer, and where none is configured.
    """
    oidc = oidc_settings()
    if oidc is None:
        raise LoginRefused("nobody signs in by a provider here")
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
        return provider_of(oidc).authorization
    if name == "OIDC_TOKEN_USE_BASIC_AUTH":
        return provider_of(oidc).takes_basic
    return import_from_settings(name, *default)


class OidcBackend(OIDCAuthenticationBackend):
    """For logins by a code that the callback has checked the state of. It takes no other
    credentials, so a form with a name and a password never comes here.
    """

    get_settings = staticmethod(library_setting)

    def __init__(self) -> None:
        """Asks nobody: each request with a session makes one of these."""
        self.UserModel = User

    def authenticate(self, request: HttpRequest, *, nonce: str, code_verifier: str) -> User:
        """The user whom the provider names. Raises LoginRefused."""
        oidc = oidc_settings()
        if oidc is None:
            raise LoginRefused("nobody signs in by a provider here")
        provider = provider_of(oidc)
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
                    "redirect_uri": redirect_uri(),
                    "code_verifier": code_verifier,
                }
            )
            claims = self.verify_token(tokens["id_token"], nonce=nonce)
            if provider.userinfo:
                claims = self._with_userinfo(tokens, claims)
        except (requests.RequestException, jwt.PyJWTError, SuspiciousOperation) as error:
            log.warning("login by the provider refused: error=%s", error)
            raise LoginRefused(f"what {oidc.name} answered cannot be believed") from error
        except (KeyError, ValueError, TypeError) as error:
            log.warning("login by the provider refused, it answered nonsense: error=%r", error)
            raise LoginRefused(f"what {oidc.name} answered cannot be understood") from error
        user = do_sign_in(claims, oidc)
        request.session[ID_TOKEN] = tokens["id_token"]
        return user

    def verify_token(self, token: str, **given: Any) -> dict[str, Any]:
        """The claims of an id token. Raises PyJWTError, SuspiciousOperation, KeyError."""
        oidc = oidc_settings()
        assert oidc is not None
        if jwt.get_unverified_header(token)["alg"] != oidc.algorithm:
            raise SuspiciousOperation("the id token is signed by another algorithm")
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
        _check_party(claims, oidc)
        if not hmac.compare_digest(str(claims.get("nonce", "")), given["nonce"]):
            raise SuspiciousOperation("the nonce of the id token is another login's")
        return claims

    def get_user(self, user_id: int) -> User | None:
        """None for whoever is locked out; the library's own lets them in."""
        user = ModelBackend.get_user(self, user_id)
        assert user is None or isinstance(user, User), user
        return user

    def _with_userinfo(self, tokens: dict[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
        """The id token's claims, and what else the provider says of the same subject."""
        more = self.get_userinfo(tokens["access_token"], tokens["id_token"], claims)
        if more["sub"] != claims["sub"]:
            raise SuspiciousOperation("the provider speaks of somebody else")
        return {**more, **claims}


def _check_party(claims: dict[str, Any], oidc: OidcSettings) -> None:
    """A token for several audiences names the one that it was made for."""
    audiences = claims["aud"]
    is_of_several = isinstance(audiences, list) and len(audiences) > 1
    if claims.get("azp", oidc.client_id) != oidc.client_id or (
        is_of_several and "azp" not in claims
    ):
        raise SuspiciousOperation("the id token was made for another client")
