"""HTTP/1.1, as much of it as marker requests need: small, strict, quick to start and to answer.

One request at a time per connection, bodies by Content-Length alone. Anything else is rejected and
the connection closed, so no two readers of one byte stream can differ about where a request ends.

A large body has to be admitted by its request's head before any memory is kept for it, and a sender
has until a deadline, even if its bytes keep arriving.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import cast

from workers.clock import Clock
from workers.errors import LakehouseError
from workers.markers.messages import BadRequest, Reply, Request, Response

BYTES_MAX = 256 << 20
HOLDER_BYTES_MAX = 64 << 20
"""The limit for one table. A client's own requests are some kilobytes each."""
_HEAD_BYTES_MAX = 16 << 10
_SMALL_BODY_BYTES = 8 << 10  # Bounded by the number of connections, as heads are.
_LINGER_S = 2.0
_CONNECTIONS_MAX = 12_000
_BACKLOG = 4_096
_KEPT = 256
_HEAD = re.compile(
    rb"(?P<method>[A-Z]{1,16}) (?P<target>/[!-~]*) HTTP/1\.(?P<minor>[01])\r\n"
    rb"(?P<fields>(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*)\Z"
)
_LENGTH = re.compile(r"[0-9]{1,10}\Z")
_END = b"\r\n\r\n"

_log = logging.getLogger(__name__)


Handler = Callable[[Request, Reply], None]
"""Replies to every request, now or later, its own failures included."""


class BodyBudget:
    """Counts the bytes that each holder reserved. Not thread-safe: only the event loop has it."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """Bytes that all holders together have reserved now."""
        return self._held.total()

    def reserve(self, holder: str, length: int) -> str | None:
        """Reserve bytes until `release`. Returns None, or why they are not available."""
        if self._held[holder] + length > HOLDER_BYTES_MAX:
            return "too many large requests of this table at once"
        if self.bytes + length > BYTES_MAX:
            return "too many large requests at once"
        self._held[holder] += length
        return None

    def release(self, holder: str, length: int) -> None:
        """Release what `reserve` reserved: the same holder and length, once."""
        self._held[holder] -= length
        if not self._held[holder]:
            del self._held[holder]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits for the duration of a connection, however much has arrived."""

    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    """Between two requests."""
    unread_s: float = 30.0
    """With answers that the peer does not take."""
    sweep_s: float = 1.0


class HttpServer:
    """A server that accepts connections and ends late ones."""

    def __init__(
        self,
        handler: Handler,
        refusal: Callable[[LakehouseError], Response],
        *,
        admit: Callable[[Request], str],
        clock: Clock,
        body_bytes_max: int,
        deadlines: Deadlines = Deadlines(),
    ) -> None:
        """Create the server; `admit` returns for a head the holder whose share of memory its large
        body uses, and raises LakehouseError for a body that must not be read.
        """
        self.handler = handler
        self.refusal = refusal
        self.admit = admit
        self.clock = clock
        self.body_bytes_max = body_bytes_max
        self.deadlines = deadlines
        self.bodies = BodyBudget()
        self.connections: set[_Connection] = set()
        self.answering = 0
        self.is_quiet = asyncio.Event()
        """Set when nothing is being answered."""
        self._listening: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> None:
        """Accept connections from now on. Raises OSError where the address is taken."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: _Connection(self), host, port, backlog=_BACKLOG
        )
        self._sweep()

    async def close(self, timeout_s: float) -> None:
        """Accept nothing new, let running answers finish, then end every connection."""
        if self._listening is not None:
            self._listening.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self.connections):
            connection.close_when_idle()
        if self.answering:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.is_quiet.wait(), timeout_s)
        for connection in tuple(self.connections):
            connection.transport.abort()

    @property
    def is_full(self) -> bool:
        """True at the bound of connections: another is dropped unanswered."""
        return len(self.connections) >= _CONNECTIONS_MAX

    def _sweep(self) -> None:
        now_s = self.clock.monotonic_s()
        for connection in tuple(self.connections):
            if connection.due_s < now_s:
                connection.end_late()
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(self.deadlines.sweep_s, self._sweep)


class _Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self.is_answering = False
        self.due_s = math.inf
        """When it is ended; never while we are the one who is waited for."""
        self._is_advancing = False
        self._is_idle = False
        self._is_unread = False
        self._server = server
        self._buffer = bytearray()
        self._request: Request | None = None  # Its head came, its body is still coming.
        self._length = 0
        self._holder = ""
        self._reserved = 0
        self._is_last = False
        self._is_refused = False
        self._remote = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._server.is_full:
            self.transport.abort()
            return
        self._set_due(self._server.deadlines.head_s)
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if peer else ""
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        # The caller of a lost connection gets no answer; the marker is created anyway.
        self._server.connections.discard(self)
        self._release()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_idle:
            self._is_idle = False
            self._set_due(self._server.deadlines.head_s)
        self._buffer += data
        if not self.is_answering:
            self._advance()
        elif len(self._buffer) > _HEAD_BYTES_MAX:
            self.transport.pause_reading()  # Until the request that is being answered is.

    def pause_writing(self) -> None:
        """Stop answering a peer that sends and does not read, until it reads."""
        self._is_unread = True
        self._set_due(self._server.deadlines.unread_s)
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_unread = False
        self.due_s = math.inf
        if self.is_answering or self._is_refused:
            return
        self._set_due(self._server.deadlines.head_s)
        if not self._is_advancing:
            self._advance()
        if not self.is_answering:
            self.transport.resume_reading()

    def end_late(self) -> None:
        if self._is_idle or self._is_unread or self._is_refused:
            self.transport.abort()
        else:
            self._refuse(BadRequest(408, "the request did not come in time"))

    def close_when_idle(self) -> None:
        self._is_last = True
        if not self.is_answering:
            self.transport.close()

    def _advance(self) -> None:
        """Hand over arrived requests, one after the other's reply."""
        self._is_advancing = True
        try:
            while not (self.is_answering or self._is_unread or self.transport.is_closing()):
                request = self._next()
                if request is None:
                    break
                self.is_answering = True
                self.due_s = math.inf
                self._server.answering += 1
                self._server.is_quiet.clear()
                self._server.handler(request, self._reply)
        except LakehouseError as refused:
            self._refuse(refused)
        finally:
            self._is_advancing = False

    def _refuse(self, refused: LakehouseError) -> None:
        """Answer, and read on for a moment: closed immediately, our answer could be lost on its
        way.
        """
        self._is_refused = True
        self.due_s = math.inf
        self._release()
        self._buffer.clear()
        self.transport.write(self._server.refusal(refused).encode(closes=True))
        self.transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self.transport.abort)

    def _next(self) -> Request | None:
        """Return the next whole request, None while some of it is missing. Raises
        LakehouseError.
        """
        if self._request is None:
            at = self._buffer.find(_END, 0, _HEAD_BYTES_MAX)
            if at < 0:
                if len(self._buffer) >= _HEAD_BYTES_MAX:
                    raise BadRequest(431, "request head is too large")
                return None
            self._request = self._head(bytes(self._buffer[: at + 2]))
            del self._buffer[: at + len(_END)]
            self._set_due(self._server.deadlines.body_s)
        if len(self._buffer) < self._length:
            return None
        request, self._request = self._request, None
        if self._length:
            request.body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
        return request

    def _head(self, head: bytes) -> Request:
        match = _HEAD.match(head)
        if match is None:
            raise BadRequest(400, "not a request of HTTP/1.1")
        headers = _headers(match["fields"])
        length = self._body_length(headers)
        path, _, query = match["target"].decode("ascii").partition("?")
        request = Request(match["method"].decode("ascii"), path, query, headers, self._remote)
        if length > _SMALL_BODY_BYTES:
            self._reserve(self._server.admit(request), length)
        self._length = length
        connection = headers.get("connection", "").lower()
        self._is_last = self._is_last or "close" in connection or match["minor"] == b"0"
        if headers.get("expect", "").lower() == "100-continue" and self._length:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return request

    def _body_length(self, headers: Mapping[str, str]) -> int:
        if "transfer-encoding" in headers:
            raise BadRequest(411, "a body needs its Content-Length")
        text = headers.get("content-length", "0")
        if _LENGTH.match(text) is None:
            raise BadRequest(400, "Content-Length is no number")
        length = int(text)
        if length > self._server.body_bytes_max:
            raise BadRequest(413, "body is too large")
        return length

    def _reserve(self, holder: str, length: int) -> None:
        if (why := self._server.bodies.reserve(holder, length)) is not None:
            raise BadRequest(503, why)
        self._holder, self._reserved = holder, length

    def _set_due(self, after_s: float) -> None:
        self.due_s = self._server.clock.monotonic_s() + after_s

    def _release(self) -> None:
        if self._reserved:
            self._server.bodies.release(self._holder, self._reserved)
            self._reserved = 0

    def _reply(self, response: Response) -> None:
        assert self.is_answering, "one reply to one request"
        self.is_answering = False
        self._server.answering -= 1
        if not self._server.answering:
            self._server.is_quiet.set()
        self._release()
        if self.transport.is_closing():
            return
        self._is_idle = not self._buffer
        deadlines = self._server.deadlines
        self._set_due(deadlines.idle_s if self._is_idle else deadlines.head_s)
        self.transport.write(response.encode(closes=self._is_last))
        if self._is_last:
            self.transport.close()
            return
        if self._buffer and not self._is_advancing:
            self._advance()
        if not (self.is_answering or self._is_unread or self.transport.is_reading()):
            self.transport.resume_reading()


@lru_cache(maxsize=_KEPT)
def _headers(fields: bytes) -> Mapping[str, str]:
    """Parse headers. One client's requests have the same, so they are kept. Raises NotServed."""
    headers: dict[str, str] = {}
    for line in fields.decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in headers and name in {"content-length", "host", "authorization"}:
            raise BadRequest(400, "a header is there twice")
        headers[name] = value.strip()
    return MappingProxyType(headers)
