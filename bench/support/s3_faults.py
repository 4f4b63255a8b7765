"""Faults of an S3 server (reliability.md, L7), as answers to one request."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.support.s3_process import Request

BEFORE = {
    "503": ("503 Service Unavailable", "SlowDown"),
    "500": ("500 Internal Server Error", "InternalError"),
    "409": ("409 Conflict", "ConditionalRequestConflict"),
    "expired": ("403 Forbidden", "ExpiredToken"),
    "skewed": ("403 Forbidden", "RequestTimeTooSkewed"),
    "200-with-error": ("200 OK", "InternalError"),
}
AFTER = ("500-after", "reset-after", "duplicated", "truncated", "trickled", "late")
KINDS = (*BEFORE, "reset-before", *AFTER)
_Headers = list[tuple[str, str]]


class Reset(ConnectionError):
    """The connection ends without an answer."""


@dataclass
class Fault:
    """`kind` for the requests of `operation` whose target contains `part`, from the `nth` on."""

    kind: str
    operation: str = ""
    part: str = ""
    nth: int = 1
    times: int = 1
    seen: int = field(default=0)
    met: int = field(default=0)

    def hits(self, operation: str, target: str) -> bool:
        if self.operation not in ("", operation) or self.part not in target:
            return False
        self.seen += 1
        if self.seen < self.nth or self.met >= self.times:
            return False
        self.met += 1
        return True


def answer_of(
    fault: Fault | None, request: Request, behind: Callable[..., Any], start: Any
) -> Iterable[bytes]:
    """What the server answers. Raises Reset."""
    if fault is None:
        return _passed_on(request, behind, start)
    if fault.kind in BEFORE:
        status, code = BEFORE[fault.kind]
        return _error(status, code, start)
    if fault.kind == "reset-before":
        raise Reset
    status, headers, body = _taken(request, behind)
    match fault.kind:
        case "500-after":
            return _error("500 Internal Server Error", "InternalError", start)
        case "reset-after":
            raise Reset
        case "duplicated":
            status, headers, body = _taken(request, behind)
        case "late":
            time.sleep(1.5)
        case "truncated" if len(body) > 1:
            start(status, headers)
            return _cut(body)
        case "trickled" if len(body) > 1:
            start(status, headers)
            return _trickle(body)
    start(status, headers)
    return [body]


def _passed_on(request: Request, behind: Callable[..., Any], start: Any) -> Iterable[bytes]:
    status, headers, body = _taken(request, behind)
    start(status, headers)
    return [body]


def _taken(request: Request, behind: Callable[..., Any]) -> tuple[str, _Headers, bytes]:
    heads: list[tuple[str, _Headers]] = []

    def note(status: str, headers: _Headers, *_: object) -> None:
        heads.append((status, headers))

    environ = {**request.environ, "wsgi.input": io.BytesIO(request.content)}
    parts = behind(environ, note)
    body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    status, headers = heads[-1]
    if request.environ["REQUEST_METHOD"] == "HEAD":
        return status, headers, b""
    kept = [one for one in headers if one[0].lower() != "content-length"]
    return status, [*kept, ("Content-Length", str(len(body)))], body


def _error(status: str, code: str, start: Any) -> Iterable[bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _cut(body: bytes) -> Iterable[bytes]:
    yield body[: len(body) // 2]
    raise Reset


def _trickle(body: bytes) -> Iterable[bytes]:
    for at in range(len(body)):
        yield body[at : at + 1]
        time.sleep(1)
