"""One request to an address that somebody gave: to the address that was judged, with the name's
certificate; no redirect followed, no proxy asked, bounded in size and time.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final

from django.conf import settings

from controlplane.outgoing.addresses import (
    Allowed,
    Resolver,
    Target,
    resolved_target,
    system_addresses,
)

TIMEOUT_S: Final = 10.0
BODY_BYTES_MAX: Final = 512 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024
_ADDRESSES_TRIED_MAX: Final = 3


class SendFailed(Exception):
    """No whole answer came. Another try may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    """Its first 64 KiB."""


@cache
def public_tls() -> ssl.SSLContext:
    """What the system trusts; TLS 1.2 at least."""
    return ssl.create_default_context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """How addresses are resolved and judged, and whom TLS trusts."""

    allowed: Allowed = field(default_factory=Allowed)
    resolve: Resolver = system_addresses
    tls: ssl.SSLContext = field(default_factory=public_tls)
    timeout_s: float = TIMEOUT_S
    """For all of it but resolving the name."""

    def request(self, method: str, url: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Whatever the receiver says, 3xx included.

        Raises AddressRefused before anything is sent, SendFailed.
        """
        if len(body) > BODY_BYTES_MAX:
            raise SendFailed(f"the message is too large: bytes={len(body)}")
        try:
            target = resolved_target(url, self.allowed, self.resolve)
            return self._exchange(target, method, body, headers)
        except (OSError, HTTPException) as error:
            raise SendFailed(f"{type(error).__name__}: {error}"[:300]) from error

    def _exchange(
        self, target: Target, method: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        connection = _Pinned(target, self.tls, self.timeout_s)
        # Each read may wait as long as the socket allows, and a trickle never ends.
        stop = threading.Timer(self.timeout_s, connection.cut)
        stop.daemon = True
        stop.start()
        try:
            connection.request(method, target.path, body=body, headers=dict(headers))
            answer = _answer(connection.getresponse())
            if connection.was_cut:
                raise TimeoutError(f"no whole answer within {self.timeout_s:g} s")
            return answer
        finally:
            stop.cancel()
            connection.close()


def configured() -> Outgoing:
    """As this node's settings say."""
    return Outgoing(allowed=settings.SLUICE_OUTGOING_ALLOWED)


class _Pinned(HTTPConnection):
    """Connects to the addresses of its target, whatever the name means by now."""

    def __init__(self, target: Target, tls: ssl.SSLContext, timeout_s: float) -> None:
        super().__init__(target.host, target.port, timeout=timeout_s)
        self._target, self._tls, self._timeout_s = target, tls, timeout_s
        self.was_cut = False
        self.default_port = 443 if target.is_tls else 80  # So that Host names no usual port.

    def connect(self) -> None:
        self.sock = self._connected()
        if self._target.is_tls:
            # With the handshake apart, so that `cut` has a socket to shut while it lasts.
            self.sock = wrapped = self._tls.wrap_socket(
                self.sock, server_hostname=self._target.host, do_handshake_on_connect=False
            )
            wrapped.do_handshake()

    def cut(self) -> None:
        """From another thread: whoever reads or writes fails at once."""
        self.was_cut = True
        if self.sock is not None and self.sock.fileno() >= 0:
            _shut(self.sock)

    def _connected(self) -> socket.socket:
        failure: OSError | None = None
        for address in self._target.addresses[:_ADDRESSES_TRIED_MAX]:
            try:
                return socket.create_connection((address, self._target.port), self._timeout_s)
            except OSError as error:
                failure = error
        assert failure is not None, self._target
        raise failure


def _shut(open_socket: socket.socket) -> None:
    try:
        # Not TLS's own, which is no thing for another thread.
        socket.socket.shutdown(open_socket, socket.SHUT_RDWR)
    except OSError:
        return  # It is closed already.


def _answer(response: HTTPResponse) -> Answer:
    return Answer(
        status=response.status,
        headers=dict(response.getheaders()),
        body=response.read(ANSWER_BYTES_MAX),
    )
