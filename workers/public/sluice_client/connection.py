"""Requests to one node: a token, problems as exceptions, and a second try where that is safe."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, TypeVar
from urllib.parse import quote

import requests

from .problems import NodeUnreachable, ProblemError

TRIES: Final = 4
PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
_PIECE_BYTES: Final = 1 << 16
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
T = TypeVar("T")


class Connection:
    """Used by one thread at a time."""

    def __init__(self, address: str, token: str, timeout_s: float) -> None:
        self._base = address.rstrip("/") + "/api/v1/"
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Token {token}"

    def get(self, _answer: type[T], path: str, query: Mapping[str, Any] | None = None) -> T:
        """Return the JSON, which has the type `_answer`. `path` is relative to `/api/v1/`. Values
        of the query that are None are left out, and lists are joined with commas. Raises
        ProblemError, NodeUnreachable.
        """
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        answer: T = self._send("GET", path, params=given)
        return answer

    def save(self, path: str, query: Mapping[str, Any], to: IO[bytes]) -> None:
        """Write the answer's bytes to `to` as they come. Raises ProblemError, NodeUnreachable; what
        breaks off in the middle is not sent again, since a part of it is written already.
        """
        given = {name: _text(value) for name, value in query.items() if value is not None}
        try:
            with self._session.get(
                self._base + path,
                params=given,
                timeout=self._timeout_s,
                allow_redirects=False,
                stream=True,
            ) as answer:
                if answer.status_code != 200:
                    _content(answer)
                for piece in answer.iter_content(_PIECE_BYTES):
                    to.write(piece)
        except (requests.RequestException, OSError) as error:
            raise NodeUnreachable(f"{self._base}{path} broke off: {error}") from error

    def pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        """Every row of a list, page after page, as it is asked for."""
        cursor: str | None = None
        while True:
            page = self.get(dict[str, Any], path, {**query, "cursor": cursor})
            yield from page["results"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def ask(
        self,
        _answer: type[T],
        method: str,
        path: str,
        body: Mapping[str, Any],
        key: str | None = None,
    ) -> T:
        """Request a change, and return the JSON, which has the type `_answer`. Requests with the
        same `key` have one effect; by default each has a key of its own. Raises ProblemError,
        NodeUnreachable.
        """
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        answer: T = self._send(method, path, json=dict(body), headers=headers)
        return answer

    def send_file(self, path: str, query: Mapping[str, Any], file: IO[bytes]) -> Any:
        """Send the content of a file, from its start, piece by piece. `file` must be seekable: it
        is sent again if no answer came. Raises ProblemError, NodeUnreachable.
        """
        headers = {"Content-Type": "application/octet-stream"}
        return self._send("POST", path, params=dict(query), data=file, headers=headers)

    def close(self) -> None:
        """Give its connections back."""
        self._session.close()

    def _send(self, method: str, path: str, **given: Any) -> Any:
        last: Exception | None = None
        for attempt in range(TRIES):
            if "data" in given:
                given["data"].seek(0)
            try:
                answer = self._session.request(
                    method,
                    self._base + path,
                    timeout=self._timeout_s,
                    allow_redirects=False,
                    **given,
                )
            except (requests.ConnectionError, requests.Timeout) as error:
                last = error
                pause_s = PAUSE_S * 2**attempt
            else:
                if answer.status_code not in _TRY_AGAIN or attempt + 1 == TRIES:
                    return _content(answer)
                pause_s = float(answer.headers.get("Retry-After") or PAUSE_S * 2**attempt)
            if attempt + 1 < TRIES:
                time.sleep(min(pause_s, PAUSE_S_MAX))
        raise NodeUnreachable(f"{self._base} did not answer in {TRIES} tries: {last}")


def segment(text: str) -> str:
    """One part of a path, whatever stands in it."""
    return quote(text, safe="")


def table_path(slug: str) -> str:
    """The address of one table, with a slash behind it."""
    return f"tables/{segment(slug)}/"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _content(answer: requests.Response) -> Any:
    if answer.ok and 200 <= answer.status_code < 300:
        return answer.json() if answer.content else None
    request_id = answer.headers.get("X-Request-ID", "")
    try:
        problem = answer.json()
        code, detail, values = problem["code"], problem["detail"], problem["values"]
    except (ValueError, KeyError, TypeError):
        code, detail, values = "no_problem_details", answer.text[:500] or answer.reason, {}
    raise ProblemError(
        status=answer.status_code, code=code, detail=detail, values=values, request_id=request_id
    )
