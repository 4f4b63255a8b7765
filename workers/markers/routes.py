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
from urllib.parse import parse_qsl

from aiohttp import web

from workers.clock import Clock
from workers.errors import (
    EarlyConflict,
    InstantRolledBack,
    InvalidInput,
    LakehouseError,
    NotFound,
    TableNotFound,
)
from workers.markers import store
from workers.markers.access import Access, TokenMissing, TokenRefused
from workers.markers.base import CreateResult
from workers.markers.batcher import MarkerDirectory, MarkerServerBusy
from workers.markers.client import BASE_PATH, RESULT_HEADER
from workers.markers.detector import Detectors
from workers.markers.fence import is_settled
from workers.markers.marker import checked_name, parse_markers_directory
from workers.markers.registry import MarkerDirectories, OutsideRoots
from workers.markers.statistics import Statistics

_BODY_BYTES_MAX = 8 << 20
_DRAIN_MAX_S = 60.0
_RETRY_AFTER_S = 1
_FORM = "application/x-www-form-urlencoded"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_STATUS: tuple[tuple[type[LakehouseError], int], ...] = (
    (InvalidInput, 400),
    (TokenMissing, 401),
    (TokenRefused, 403),
    (OutsideRoots, 403),
    (TableNotFound, 404),
    (NotFound, 404),
    (InstantRolledBack, 409),
    (EarlyConflict, 409),
    (MarkerServerBusy, 503),
)
_OUTCOME = {401: "denied", 403: "denied", 500: "failed", 503: "busy"}
_RESULT: dict[type[Exception], str] = {InstantRolledBack: "fenced", EarlyConflict: "conflict"}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Found = TypeVar("_Found")

_log = logging.getLogger(__name__)


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

    def application(self) -> web.Application:
        application = web.Application(
            client_max_size=_BODY_BYTES_MAX, middlewares=[self._answer_errors]
        )
        application.add_routes(
            [
                web.get(f"{BASE_PATH}/all", self.all),
                web.get(f"{BASE_PATH}/create-and-merge", self.create_and_merge),
                web.get(f"{BASE_PATH}/append", self.append),
                web.get(f"{BASE_PATH}/dir/exists", self.directory_exists),
                web.post(f"{BASE_PATH}/create", self.create),
                web.post(f"{BASE_PATH}/create-all", self.create_all),
                web.post(f"{BASE_PATH}/dir/delete", self.delete_directory),
                web.get("/health", self.health),
                web.get("/metrics", self.metrics),
                web.post("/drain", self.drain),
            ]
        )
        application.on_shutdown.append(self._finish)
        return application

    async def create(self, request: web.Request) -> web.Response:
        started_s = self._clock.monotonic_s()
        asked = await _parameters(request)
        directory = await self._find(request, asked)
        name = checked_name(asked.get("markername", ""))
        try:
            [result] = await self._create(directory, [name], asked)
        except EarlyConflict:
            self._statistics.requests["conflict"] += 1
            return _json(False, result="conflict")
        self._statistics.answered((self._clock.monotonic_s() - started_s) * 1000)
        # Hudi's clients look at the body alone, where false is "exists" and "conflict" in one.
        return _json(result == "created", result=result)

    async def create_all(self, request: web.Request) -> web.Response:
        started_s = self._clock.monotonic_s()
        asked = dict(request.query)
        directory = await self._find(request, asked)
        names = _listed_names(await _body(request))
        results = await self._create(directory, names, asked)
        self._statistics.answered((self._clock.monotonic_s() - started_s) * 1000)
        return _json(results, result="created" if "created" in results else "exists")

    async def all(self, request: web.Request) -> web.Response:
        return _json(await self._stored(request))

    async def create_and_merge(self, request: web.Request) -> web.Response:
        return _json([name for name in await self._stored(request) if not _is_append(name)])

    async def append(self, request: web.Request) -> web.Response:
        return _json([name for name in await self._stored(request) if _is_append(name)])

    async def directory_exists(self, request: web.Request) -> web.Response:
        directory = await self._find(request, dict(request.query))
        self._statistics.requests["read"] += 1
        return _json(await self._in_pool(_exists, directory))

    async def delete_directory(self, request: web.Request) -> web.Response:
        """Only for a settled instant: the markers of a pending one are all that a rollback has."""
        directory = await self._find(request, await _parameters(request))
        self._statistics.requests["deleted"] += 1
        if not await self._in_pool(_is_settled, directory):
            return _json(False, result="pending", status=409)
        await directory.forget()
        return _json(await self._in_pool(_delete, directory))

    async def health(self, request: web.Request) -> web.Response:
        return _json(
            {
                "status": "draining" if self._is_draining else "ok",
                "pid": os.getpid(),
                "since_ms": self._statistics.since_ms,
            }
        )

    async def metrics(self, request: web.Request) -> web.Response:
        self._access.check_admin(request)
        found = list(self._directories)
        return _json(
            {
                "pid": os.getpid(),
                "draining": self._is_draining,
                "queue_depth": sum(directory.queue_depth for directory in found),
                "in_flight": sum(directory.in_flight for directory in found),
                **self._statistics.summary(),
                "directories": [_described(directory) for directory in found],
            }
        )

    async def drain(self, request: web.Request) -> web.Response:
        """Refuse creates from now on and answer when every marker is flushed."""
        self._access.check_admin(request)
        self._is_draining = True
        try:
            async with asyncio.timeout(_DRAIN_MAX_S):
                await self._directories.finish()
        except TimeoutError:
            return _json({"drained": False}, status=504)
        return _json({"drained": True, "markers_created": self._statistics.markers_created})

    async def _find(self, request: web.Request, asked: dict[str, str]) -> MarkerDirectory:
        location, instant = parse_markers_directory(asked.get("markerdirpath", ""))
        self._access.check(request, location, instant)
        return await self._directories.find(location, instant)

    async def _create(
        self, directory: MarkerDirectory, names: Sequence[str], asked: dict[str, str]
    ) -> list[CreateResult]:
        request_id = asked.get("requestid") or None
        if request_id is not None and not _REQUEST_ID.match(request_id):
            raise InvalidInput("requestid is not 1 to 64 letters, digits, dots or dashes")
        if self._is_draining:
            raise MarkerServerBusy("server is being restarted")
        detector = await self._detectors.of(directory.storage, directory.instant, asked)
        if detector is not None:
            detector.refuse_doomed()
        results = await directory.create(names, request_id)
        if detector is not None:
            detector.watch()
        self._statistics.requests["created" if "created" in results else "exists"] += 1
        return results

    async def _stored(self, request: web.Request) -> list[str]:
        """Read from storage, not from memory: others may have written or deleted there as well."""
        directory = await self._find(request, dict(request.query))
        self._statistics.requests["read"] += 1
        return await self._in_pool(_names, directory)

    async def _in_pool(
        self, call: Callable[[MarkerDirectory], _Found], directory: MarkerDirectory
    ) -> _Found:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, directory)

    async def _finish(self, application: web.Application) -> None:
        self._detectors.stop()
        await self._directories.finish()

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            self._statistics.requests["invalid"] += 1
            return _json({"error": error.reason, "code": "http"}, status=error.status)
        except (OSError, LakehouseError) as error:
            return self._refusal(error)

    def _refusal(self, error: OSError | LakehouseError) -> web.Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        result = _RESULT.get(type(error))
        self._statistics.requests[result or _OUTCOME.get(status, "invalid")] += 1
        if status == 500:
            _log.error("request failed: %s", error)
        response = _json(
            {"error": str(error), "code": getattr(error, "code", "storage_failed")},
            result=result,
            status=status,
        )
        if status == 503:
            response.headers["Retry-After"] = str(_RETRY_AFTER_S)
        return response


def _json(content: object, *, result: str | None = None, status: int = 200) -> web.Response:
    headers = {} if result is None else {RESULT_HEADER: result}
    return web.json_response(content, status=status, headers=headers)


async def _parameters(request: web.Request) -> dict[str, str]:
    """From the query, where Hudi's clients put them, or a form; the query has the last word."""
    if request.content_type != _FORM:
        return dict(request.query)
    return {**dict(parse_qsl(await _body(request))), **request.query}


async def _body(request: web.Request) -> str:
    try:
        return (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body is not UTF-8") from error


def _listed_names(body: str) -> list[str]:
    """A JSON list, or one name a line; one bad name refuses all. Raises InvalidInput."""
    if body.lstrip().startswith("["):
        try:
            listed = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidInput("body is no JSON list") from error
        if not all(isinstance(name, str) for name in listed):
            raise InvalidInput("a marker name is not text")
    else:
        listed = [line for line in body.split("\n") if line]
    if not listed:
        raise InvalidInput("body lists no marker")
    return [checked_name(name) for name in listed]


def _described(directory: MarkerDirectory) -> dict[str, object]:
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
    return is_settled(directory.storage, directory.instant)


def _delete(directory: MarkerDirectory) -> bool:
    existed = _exists(directory)
    store.delete_markers(directory.storage, directory.instant)
    return existed


def _is_append(name: str) -> bool:
    return name.endswith(".APPEND")
