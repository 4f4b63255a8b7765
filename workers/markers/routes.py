"""The marker server's routes: Hudi's marker REST surface, bulk creation, and operations.

Answers a create only after it is durable. Never touches anything but marker directories of tables
below its roots.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from workers.clock import Clock
from workers.errors import (
    EarlyConflict,
    InstantRolledBack,
    InvalidInput,
    LakehouseError,
    NotFound,
    TableNotFound,
)
from workers.json_text import read_json
from workers.markers import store
from workers.markers.access import Access, TokenMissing, TokenRefused
from workers.markers.base import EARLY_PARAMETER, CreateResult
from workers.markers.batcher import MarkerDirectory, MarkerServerBusy
from workers.markers.client import BASE_PATH, RESULT_HEADER
from workers.markers.detector import Detectors
from workers.markers.fence import can_delete_markers
from workers.markers.marker import parse_markers_directory, validate_marker_name
from workers.markers.messages import BadRequest, Reply, Request, Response, parameters
from workers.markers.registry import MarkerDirectories, TableOutsideRoots
from workers.markers.statistics import Statistics

BODY_BYTES_MAX = 8 << 20
_CREATE = f"{BASE_PATH}/create"
_OPERATORS = ("/metrics", "/drain")
_DRAIN_MAX_S = 60.0
_RETRY_AFTER_S = 1
_STATUS: tuple[tuple[type[LakehouseError], int], ...] = (
    (InvalidInput, 400),
    (TokenMissing, 401),
    (TokenRefused, 403),
    (TableOutsideRoots, 403),
    (TableNotFound, 404),
    (NotFound, 404),
    (InstantRolledBack, 409),
    (EarlyConflict, 409),
    (MarkerServerBusy, 503),
)
_OUTCOME = {401: "denied", 403: "denied", 500: "failed", 503: "busy"}
_RESULT: dict[type[Exception], str] = {InstantRolledBack: "fenced", EarlyConflict: "conflict"}
_OPERATOR = "operator"
_Handler = Callable[[Request], Awaitable[Response]]
_BOOLEANS = {True: b"true", False: b"false"}
_Looked = TypeVar("_Looked")

_log = logging.getLogger(__name__)
_FORM = "application/x-www-form-urlencoded"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class MarkerServer:
    """The routes. All state is the registry's; losing it loses no marker."""

    def __init__(
        self,
        directories: MarkerDirectories,
        access: Access,
        *,
        pool: ThreadPoolExecutor,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._detectors = Detectors(pool=pool, clock=clock)
        self._directories = directories
        self._access = access
        self._pool = pool
        self._clock = clock
        self._statistics = statistics
        self._is_draining = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._routes: dict[str, tuple[str, _Handler]] = {
            _CREATE: ("POST", self.create),
            f"{BASE_PATH}/create-all": ("POST", self.create_all),
            f"{BASE_PATH}/all": ("GET", self.all),
            f"{BASE_PATH}/create-and-merge": ("GET", self.create_and_merge),
            f"{BASE_PATH}/append": ("GET", self.append),
            f"{BASE_PATH}/dir/exists": ("GET", self.directory_exists),
            f"{BASE_PATH}/dir/delete": ("POST", self.delete_directory),
            "/health": ("GET", self.health),
            "/metrics": ("GET", self.metrics),
            "/drain": ("POST", self.drain),
        }

    def answer(self, request: Request, reply: Reply) -> None:
        """Answer every request; an internal failure is an answer too, or its caller would wait."""
        if (
            request.path == _CREATE
            and request.method == "POST"
            and self._try_submit(request, reply)
        ):
            return
        task = asyncio.create_task(self._answer(request, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, reply: Reply) -> None:
        try:
            response = await self._response(request)
        except (OSError, LakehouseError) as error:
            response = self._refusal(error)
        except Exception:  # noqa: BLE001 # Logged, and answered.
            _log.exception("request failed: path=%s", request.path)
            response = _json({"error": "internal error", "code": "internal"}, status=500)
        reply(response)

    async def _response(self, request: Request) -> Response:
        method, handler = self._routes.get(request.path, ("", None))
        if handler is None:
            return self.refusal(BadRequest(404, "no such path"))
        if request.method != method:
            return self.refusal(BadRequest(405, "method is not allowed here"))
        return await handler(request)

    def _try_submit(self, request: Request, reply: Reply) -> bool:
        """Try to join one marker to its batch now, if its directory is known and has no detector,
        as for nearly all requests. False leaves it to `create`.
        """
        started_s = self._clock.monotonic_s()

        def deliver(result: CreateResult | LakehouseError) -> None:
            if isinstance(result, LakehouseError):
                return reply(self._refusal(result))
            self._statistics.requests[result] += 1
            self._statistics.record_answer((self._clock.monotonic_s() - started_s) * 1000)
            return reply(_CREATED[result])

        try:
            query = parse_parameters(request)
            location, instant = parse_markers_directory(query.get("markerdirpath", ""))
            self._access.check(request, location, instant)
            directory = self._directories.find_checked(location, instant)
            if directory is None or EARLY_PARAMETER in query or self._is_draining:
                return False
            name = validate_marker_name(query.get("markername", ""))
            return directory.submit(name, parse_request_id(query), deliver)
        except LakehouseError as error:
            reply(self._refusal(error))
            return True

    def admit(self, request: Request) -> str:
        """Check the head of a request before memory is kept for its large body. Returns the table
        whose share of memory it uses, for any instant.

        Raises LakehouseError.
        """
        method, handler = self._routes.get(request.path, ("", None))
        if handler is None or request.method != method:
            raise BadRequest(404, "nothing takes a body here")
        if request.path in _OPERATORS:
            self._access.check_admin(request)
            return _OPERATOR
        query = request.query()
        location, instant = parse_markers_directory(query.get("markerdirpath", ""))
        self._access.check(request, location, instant)
        return location

    def refusal(self, error: LakehouseError) -> Response:
        """Build the response that ends a connection."""
        if not isinstance(error, BadRequest):
            return self._refusal(error)
        self._statistics.requests["invalid"] += 1
        return _json({"error": error.message, "code": error.code}, status=error.status)

    async def create(self, request: Request) -> Response:
        """Create the marker `markername` of `markerdirpath`: the body is true when this request
        created it.

        False means that it exists, or that a rival wins; the header X-Hudi-Marker-Result
        distinguishes them. Raises LakehouseError, which `answer` converts to a status.
        """
        started_s = self._clock.monotonic_s()
        query = parse_parameters(request)
        directory = await self._find(request, query)
        name = validate_marker_name(query.get("markername", ""))
        try:
            [result] = await self._create(directory, [name], query)
        except EarlyConflict:
            self._statistics.requests["conflict"] += 1
            return _json(False, result="conflict")
        self._statistics.record_answer((self._clock.monotonic_s() - started_s) * 1000)
        # Hudi's clients read the body alone, where false is "exists" and "conflict" in one.
        return _CREATED[result]

    async def create_all(self, request: Request) -> Response:
        """Create markers for the names in the body, a JSON list or one a line; returns a JSON list
        with `created` or `exists` for each, in the same order. Raises LakehouseError; ours, not
        part of Hudi's surface.
        """
        started_s = self._clock.monotonic_s()
        query = request.query()
        directory = await self._find(request, query)
        names = parse_names(body_text(request))
        results = await self._create(directory, names, query)
        self._statistics.record_answer((self._clock.monotonic_s() - started_s) * 1000)
        return _json(results, result="created" if "created" in results else "exists")

    async def all(self, request: Request) -> Response:
        """Return a JSON list of the names of all markers in `markerdirpath`, sorted."""
        return _json(await self._list_stored(request))

    async def create_and_merge(self, request: Request) -> Response:
        """Return the names that `all` returns, without markers of type APPEND."""
        return _json([name for name in await self._list_stored(request) if not _is_append(name)])

    async def append(self, request: Request) -> Response:
        """Return the names of markers of type APPEND: log files that were appended to."""
        return _json([name for name in await self._list_stored(request) if _is_append(name)])

    async def directory_exists(self, request: Request) -> Response:
        """Return body true if storage has the directory `markerdirpath`, even an empty one."""
        directory = await self._find(request, request.query())
        self._statistics.requests["read"] += 1
        return _json(await self._in_pool(_exists, directory))

    async def delete_directory(self, request: Request) -> Response:
        """Delete the directory of a settled instant: the markers of a pending one are all that a
        rollback has.
        """
        directory = await self._find(request, parse_parameters(request))
        self._statistics.requests["deleted"] += 1
        if not await self._in_pool(_is_settled, directory):
            return _json(False, result="pending", status=409)
        await directory.forget()
        return _json(await self._in_pool(_delete, directory))

    async def health(self, request: Request) -> Response:
        """Return `status` (`ok` or `draining`), `pid`, and `since_ms`; needs no token."""
        return _json(
            {
                "status": "draining" if self._is_draining else "ok",
                "pid": os.getpid(),
                "since_ms": self._statistics.since_ms,
            }
        )

    async def metrics(self, request: Request) -> Response:
        """Return counters of the process and of each directory. Raises TokenMissing,
        TokenRefused.
        """
        self._access.check_admin(request)
        directories = list(self._directories)
        return _json(
            {
                "pid": os.getpid(),
                "draining": self._is_draining,
                "queue_depth": sum(directory.queue_depth for directory in directories),
                "in_flight": sum(directory.in_flight for directory in directories),
                **self._statistics.summary(),
                "directories": [_describe(directory) for directory in directories],
            }
        )

    async def drain(self, request: Request) -> Response:
        """Refuse creates from now on and answer when every marker is flushed."""
        self._access.check_admin(request)
        self._is_draining = True
        try:
            async with asyncio.timeout(_DRAIN_MAX_S):
                await self._directories.finish()
        except TimeoutError:
            return _json({"drained": False}, status=504)
        return _json({"drained": True, "markers_created": self._statistics.markers_created})

    async def _find(self, request: Request, query: dict[str, str]) -> MarkerDirectory:
        location, instant = parse_markers_directory(query.get("markerdirpath", ""))
        self._access.check(request, location, instant)
        directory = self._directories.find_checked(location, instant)
        return directory or await self._directories.find(location, instant)

    async def _create(
        self, directory: MarkerDirectory, names: Sequence[str], query: dict[str, str]
    ) -> list[CreateResult]:
        request_id = parse_request_id(query)
        if self._is_draining:
            raise MarkerServerBusy("server is being restarted")
        detector = await self._detectors.of(directory.storage, directory.instant, query)
        if detector is not None:
            await detector.raise_if_early_conflict()
        results = await directory.create(names, request_id)
        if detector is not None:
            detector.watch()
        self._statistics.requests["created" if "created" in results else "exists"] += 1
        return results

    async def _list_stored(self, request: Request) -> list[str]:
        """List the names on storage, not in memory: others may have written or deleted there as
        well.
        """
        directory = await self._find(request, request.query())
        self._statistics.requests["read"] += 1
        return await self._in_pool(_names, directory)

    async def _in_pool(
        self, call: Callable[[MarkerDirectory], _Looked], directory: MarkerDirectory
    ) -> _Looked:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, directory)

    async def finish(self) -> None:
        """Return once nothing waits to be flushed; detectors end."""
        self._detectors.stop()
        await self._directories.finish()

    def _refusal(self, error: OSError | LakehouseError) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        result = _RESULT.get(type(error))
        self._statistics.requests[result or _OUTCOME.get(status, "invalid")] += 1
        if status == 500:
            _log.error("request failed: %s", error)
        return _json(
            {"error": str(error), "code": getattr(error, "code", "storage_failed")},
            result=result,
            status=status,
        )


def _json(content: object, *, result: str | None = None, status: int = 200) -> Response:
    headers = {} if result is None else {RESULT_HEADER: result}
    if status == 503:
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    body = _BOOLEANS[content] if isinstance(content, bool) else json.dumps(content).encode()
    return Response(body, status, headers)


_CREATED: dict[CreateResult, Response] = {
    "created": _json(True, result="created"),
    "exists": _json(False, result="exists"),
}


def _describe(directory: MarkerDirectory) -> dict[str, object]:
    counts = sorted(directory.counts_by_file.items())
    return {
        "table": directory.storage.location,
        "instant": directory.instant,
        "writer": directory.writer,
        "markers": directory.marker_count,
        "queue_depth": directory.queue_depth,
        "in_flight": directory.in_flight,
        "files": {f"MARKERS{index}": count for index, count in counts},
    }


def _names(directory: MarkerDirectory) -> list[str]:
    return list(store.read_names(directory.storage, directory.instant).all())


def _exists(directory: MarkerDirectory) -> bool:
    return store.has_markers_directory(directory.storage, directory.instant)


def _is_settled(directory: MarkerDirectory) -> bool:
    return can_delete_markers(directory.storage, directory.instant)


def _delete(directory: MarkerDirectory) -> bool:
    existed = _exists(directory)
    store.delete_markers(directory.storage, directory.instant)
    return existed


def _is_append(name: str) -> bool:
    return name.endswith(".APPEND")


def parse_parameters(request: Request) -> dict[str, str]:
    """Parse the query, where Hudi's clients put them, or a form; the query takes precedence.

    Raises InvalidInput.
    """
    query = request.query()
    if request.headers.get("content-type", "").startswith(_FORM):
        return {**parameters(body_text(request)), **query}
    return query


def parse_request_id(query: dict[str, str]) -> str | None:
    """Return the id that a request keeps over its attempts, None without one. Raises
    InvalidInput.
    """
    request_id = query.get("requestid") or None
    if request_id is not None and not _REQUEST_ID.match(request_id):
        raise InvalidInput("requestid is not 1 to 64 letters, digits, dots or dashes")
    return request_id


def body_text(request: Request) -> str:
    """Return the body as UTF-8. Raises InvalidInput."""
    try:
        return request.body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body is not UTF-8") from error


def parse_names(body: str) -> list[str]:
    """Parse a JSON list, or one name a line; one bad name rejects all. Raises InvalidInput."""
    if body.lstrip().startswith("["):
        try:
            listed = read_json(body)
        except (ValueError, RecursionError) as error:
            raise InvalidInput("body is no JSON list") from error
        if not all(isinstance(name, str) for name in listed):
            raise InvalidInput("a marker name is not text")
    else:
        listed = [line for line in body.split("\n") if line]
    if not listed:
        raise InvalidInput("body lists no marker")
    return [validate_marker_name(name) for name in listed]
