"""Authorization of marker requests: by token per instant, by admin token, or from loopback if
allowed.
"""

from __future__ import annotations

import ipaddress

from workers.clock import InstantTime
from workers.errors import LakehouseError
from workers.markers.messages import Request
from workers.markers.tokens import check_admin_token, check_token

_SCHEME = "Bearer "


class TokenMissing(LakehouseError):
    """The request carries no token."""

    code = "token_missing"


class TokenRefused(LakehouseError):
    """The token is for something else, or made up."""

    code = "token_refused"


class Access:
    """Checks requests under one secret; it may be None only where loopback needs no token."""

    def __init__(self, secret: str | None, *, allows_unauthenticated_loopback: bool) -> None:
        assert secret or allows_unauthenticated_loopback, "no request could be authorized"
        self._secret = secret
        self._allows_loopback = allows_unauthenticated_loopback

    def check(self, request: Request, location: str, instant: InstantTime) -> None:
        """Let the request for this table and instant in. Raises TokenMissing, TokenRefused."""
        token = self._token(request)
        if token is None:
            return
        if self._secret is None or not check_token(self._secret, token, location, instant):
            raise TokenRefused("token is not for this table and instant", instant=instant)

    def check_admin(self, request: Request) -> None:
        """Let an operator's request in. Raises TokenMissing, TokenRefused."""
        token = self._token(request)
        if token is None:
            return
        if self._secret is None or not check_admin_token(self._secret, token):
            raise TokenRefused("token is not the operator's")

    def _token(self, request: Request) -> str | None:
        """Return the request's token; None when it needs none."""
        header = request.headers.get("authorization", "")
        if header.startswith(_SCHEME):
            return header.removeprefix(_SCHEME)
        if self._allows_loopback and not header and is_loopback(request.remote):
            return None
        raise TokenMissing("a token is needed")


def is_loopback(host: str) -> bool:
    """True for an IP address of the loopback (127.0.0.0/8, ::1); a host's name is none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
