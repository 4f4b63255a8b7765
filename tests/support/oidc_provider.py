"""A small OpenID Connect provider on loopback: discovery, authorization, token, userinfo, keys.

It does what a provider must (codes are good once, for one client, one address and one PKCE
verifier) and signs with another library than the one that checks. What it says can be bent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID = "sluice"
CLIENT_SECRET = "the client's secret"
Claims = dict[str, Any]


@cache
def signing_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "first", "alg": "RS256", "use": "sig"})


@dataclass
class OidcProvider:
    """Whoever comes to the authorization endpoint is `person`."""

    issuer: str
    redirect_uri: str
    person: Claims = field(default_factory=lambda: {"sub": "248289761001"})
    bend: Callable[[Claims], Claims] = dict
    """Of the id token, before it is signed."""
    sign: Callable[[Claims], str] | None = None
    """In place of the right way."""
    userinfo: Claims | None = None
    """None for what the person is."""
    described_as: str = ""
    """Another issuer, for the discovery document."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)

    def describe(self) -> Claims:
        named = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "userinfo_endpoint": "userinfo",
            "jwks_uri": "keys",
            "end_session_endpoint": "logout",
        }
        return {
            "issuer": self.described_as or self.issuer,
            **{name: f"{self.issuer}/{path}" for name, path in named.items()},
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, query: Mapping[str, str]) -> str:
        """Where the browser is sent."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["redirect_uri"] == self.redirect_uri
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = dict(query)
        return f"{self.redirect_uri}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, form: Mapping[str, str]) -> Claims | None:
        """None for what is refused."""
        begun = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        checks = {
            "code": begun is not None,
            "client": (form["client_id"], form["client_secret"]) == (CLIENT_ID, CLIENT_SECRET),
            "address": form["redirect_uri"] == self.redirect_uri,
            "verifier": begun is not None and begun["code_challenge"] == challenge,
        }
        refused = [name for name, is_good in checks.items() if not is_good]
        self.refusals += refused
        if refused or begun is None:
            return None
        access = secrets.token_urlsafe(16)
        self.tokens.add(access)
        claims = self.bend(self._claims(begun["nonce"]))
        return {
            "access_token": access,
            "token_type": "Bearer",
            "id_token": self.sign(claims) if self.sign else signed(claims),
        }

    def _claims(self, nonce: str) -> Claims:
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "sub": self.person["sub"],
        }


def signed(claims: Claims, key: RSAKey | None = None) -> str:
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, key or signing_key())


def unsigned(claims: Claims) -> str:
    """`alg` none."""
    return f"{_part({'alg': 'none', 'kid': 'first'})}.{_part(claims)}."


def signed_with_the_public_key(claims: Claims) -> str:
    """HS256, its secret being what everybody may read."""
    head = f"{_part({'alg': 'HS256', 'kid': 'first'})}.{_part(claims)}"
    public = signing_key().as_pem(private=False)
    return f"{head}.{_text(hmac.new(public, head.encode(), hashlib.sha256).digest())}"


def _part(claims: Claims) -> str:
    return _text(json.dumps(claims).encode())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextmanager
def oidc_provider(redirect_uri: str) -> Iterator[OidcProvider]:
    """On a free loopback port, until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    provider = OidcProvider(f"http://127.0.0.1:{server.server_address[1]}", redirect_uri)
    server.provider = provider  # type: ignore[attr-defined]  # for its handlers
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    @property
    def provider(self) -> OidcProvider:
        known = self.server.provider  # type: ignore[attr-defined]  # set where it was made
        assert isinstance(known, OidcProvider)
        return known

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        query = {name: texts[0] for name, texts in parse_qs(where.query).items()}
        if where.path == "/.well-known/openid-configuration":
            self._json(self.provider.describe())
        elif where.path == "/keys":
            self._json({"keys": [signing_key().as_dict(private=False)]})
        elif where.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(query))
            self.end_headers()
        elif where.path == "/userinfo":
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            is_known = token in self.provider.tokens
            person = self.provider.userinfo or self.provider.person
            self._json(person if is_known else {"error": "invalid_token"}, 200 if is_known else 401)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: texts[0] for name, texts in parse_qs(body).items()}
        answer = self.provider.exchange(form)
        self._json(answer or {"error": "invalid_grant"}, 200 if answer else 400)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
        """Quiet."""

    def _json(self, answer: Claims, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
