"""HTTP requests and responses as values, for the connections of `wire`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import unquote_plus

from workers.errors import InvalidInput

_KEPT = 256
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class Request:
    """One whole request. `path` and `query_text` are as sent, still percent-encoded."""

    method: str
    path: str
    query_text: str
    headers: Mapping[str, str]
    """By lower-case name."""
    remote: str
    """The peer's address."""
    body: bytes = b""

    def query(self) -> dict[str, str]:
        """The query's parameters by name, decoded. Raises InvalidInput."""
        return parameters(self.query_text)


@dataclass(slots=True)
class Response:
    """A response in JSON. Not changed after it was sent, and may be sent many times."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    _open: bytes = field(default=b"", init=False)

    def encode(self, *, closes: bool) -> bytes:
        """Return the bytes to send; `closes` announces the end to the peer. Kept, unless it
        closes.
        """
        if closes:
            return self._build_bytes(closes=True)
        if not self._open:
            self._open = self._build_bytes(closes=False)
        return self._open

    def _build_bytes(self, *, closes: bool) -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        if closes:
            more += "Connection: close\r\n"
        head = (
            f"HTTP/1.1 {self.status} {_PHRASES[self.status]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n{more}\r\n"
        )
        return head.encode("latin-1") + self.body


Reply = Callable[[Response], None]


class BadRequest(InvalidInput):
    """An invalid request; the connection ends with the answer."""

    code = "http"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parameters(text: str) -> dict[str, str]:
    """Parse a query or a form to values by name; of several with one name the last counts. Raises
    InvalidInput.
    """
    parameters_by_name: dict[str, str] = {}
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if name:
            parameters_by_name[_unquote(name)] = _unquote(value)
    return parameters_by_name


@lru_cache(maxsize=_KEPT)  # Directories come again and again; names push each other out.
def _unquote(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInput("a parameter is not UTF-8") from error
