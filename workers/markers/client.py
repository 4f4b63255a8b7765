"""Markers through the marker server, over HTTP by the standard library: it runs on executors.

A request keeps its id over all its attempts, so a lost answer costs nothing: the server repeats its
first answer. The server may be away for some seconds while it is restarted; after the retry window
the marker is refused.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlencode, urlsplit

from workers.clock import InstantTime
from workers.errors import EarlyConflict, InstantRolledBack, InvalidInput, MarkerRefused
from workers.markers.base import EARLY_PARAMETER, CreateResult, early_text
from workers.markers.marker import Marker, markers_directory_path
from workers.options.early_detection import EarlyDetection
from workers.ports import Ports, system_ports

BASE_PATH = "/v1/hoodie/marker"
RESULT_HEADER = "X-Hudi-Marker-Result"
RETRY_WINDOW_S = 20.0
_ATTEMPT_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.05
_PAUSE_MAX_S = 1.0
_NAMES_PER_REQUEST_MAX = 10_000
_BYTES_PER_REQUEST_MAX = 4 << 20
# Something between us and the disk failed for now: the same request may work in a moment.
_TRANSIENT = frozenset({500, 502, 503, 504})


class ServerMarkers:
    """MarkerWriter that asks the server at `url`; threads share it, each with its connection."""

    def __init__(
        self,
        url: str,
        token: str | None,
        location: str,
        instant: InstantTime,
        *,
        early: EarlyDetection | None = None,
        retry_window_s: float = RETRY_WINDOW_S,
        ports: Ports | None = None,
    ) -> None:
        self._host, self._port = _address(url)
        self._token = token
        self._instant = instant
        self._query = {"markerdirpath": markers_directory_path(location, instant)}
        if early is not None:
            self._query[EARLY_PARAMETER] = early_text(early)
        self._retry_window_s = retry_window_s
        self._ports = ports or system_ports()
        self._local = threading.local()

    def create(self, marker: Marker) -> CreateResult:
        """Create a marker as MarkerWriter requires; while the server is away, retry for the retry
        window.
        """
        query = {**self._query, "markername": marker.name}
        result, _ = self._ask("/create", query, body=None)
        return _to_result(result, self._instant)

    def create_all(self, markers: Iterable[Marker]) -> None:
        """Create markers as MarkerWriter requires; one request per 10 000 names or 4 MiB of
        them.
        """
        for part in _parts(marker.name for marker in markers):
            body = json.dumps(part, ensure_ascii=False).encode()
            result, answer = self._ask("/create-all", self._query, body=body)
            _to_result(result, self._instant)
            if len(_parse_names(answer)) != len(part):
                raise MarkerRefused("marker server answered for other names", asked=len(part))

    def confirm(self) -> None:
        """Do nothing: only the server searches for rivals."""

    def close(self) -> None:
        """Drop this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def _ask(self, path: str, query: Mapping[str, str], *, body: bytes | None) -> tuple[str, bytes]:
        """Return the result header and the body of the first answer that settles the request."""
        clock = self._ports.clock
        deadline_s = clock.monotonic_s() + self._retry_window_s
        target = f"{BASE_PATH}{path}?" + urlencode({**query, "requestid": self._ports.ids.token()})
        pause_s = _FIRST_PAUSE_S
        while True:
            left_s = deadline_s - clock.monotonic_s()
            try:
                response = self._attempt(target, body, max(0.1, min(left_s, _ATTEMPT_TIMEOUT_S)))
                if response.status not in _TRANSIENT:
                    return self._read_answer(response)
                trouble = f"status {response.status}: {_parse_error(response.body)}"
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trouble = f"{type(error).__name__}: {error}"
            if clock.monotonic_s() + pause_s >= deadline_s:
                raise MarkerRefused(
                    "marker server did not answer in time",
                    server=f"{self._host}:{self._port}",
                    window_s=self._retry_window_s,
                    trouble=trouble,
                )
            clock.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, pause_s * 2)

    def _attempt(self, target: str, body: bytes | None, timeout_s: float) -> _Answer:
        connection = self._connection(timeout_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection.request("POST", target, body=body, headers=headers)
        response = connection.getresponse()
        return _Answer(response.status, response.getheader(RESULT_HEADER) or "", response.read())

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
            self._local.connection = connection
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection

    def _read_answer(self, answer: _Answer) -> tuple[str, bytes]:
        if answer.result == "fenced":
            raise InstantRolledBack(
                "instant is decided, no marker can be added", instant=self._instant
            )
        if answer.result == "conflict":
            raise EarlyConflict(
                "the marker server found a writer that wins the same file groups",
                instant=self._instant,
            )
        if answer.status != http.client.OK:
            raise MarkerRefused(
                "marker server refused the request",
                status=answer.status,
                reason=_parse_error(answer.body),
                instant=self._instant,
            )
        return answer.result, answer.body


class _Answer:
    __slots__ = ("body", "result", "status")

    def __init__(self, status: int, result: str, body: bytes) -> None:
        self.status = status
        self.result = result
        self.body = body


def _to_result(result: str, instant: InstantTime) -> CreateResult:
    match result:
        case "created":
            return "created"
        case "exists":
            return "exists"
        case _:
            raise MarkerRefused("marker was not created", result=result, instant=instant)


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    """Split names into requests: almost always one, more only if a request would be too large."""
    part: list[str] = []
    part_bytes = 0
    for name in names:
        name_bytes = len(name.encode())
        if part and (
            len(part) == _NAMES_PER_REQUEST_MAX or part_bytes + name_bytes > _BYTES_PER_REQUEST_MAX
        ):
            yield part
            part, part_bytes = [], 0
        part.append(name)
        part_bytes += name_bytes
    if part:
        yield part


def _parse_names(body: bytes) -> list[object]:
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise MarkerRefused("marker server answered no JSON") from error
    return answer if isinstance(answer, list) else []


def _parse_error(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return ascii(body[:200])
    return str(answer.get("error", "")) if isinstance(answer, dict) else ascii(body[:200])


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise InvalidInput("marker server URL has no valid port", url=url) from error
    if parts.scheme != "http" or not parts.hostname or port is None:
        raise InvalidInput("marker server URL is not http://<host>:<port>", url=url)
    return parts.hostname, port
