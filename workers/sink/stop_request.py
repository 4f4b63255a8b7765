"""A request to stop, as a file next to the table, because workers have no database."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.json_text import read_json
from workers.sink.sink_paths import SinkPaths
from workers.storage.base import Storage

_TRIES_MAX = 100
_NOTHING = b'{"kind": "none"}'
"""Content of the file without a request."""


class StopKind(StrEnum):
    """How a sink is to stop."""

    GRACEFUL = "graceful"
    """End the transaction, commit it, acknowledge it, then stop."""
    HARD = "hard"
    """Abort the transaction and stop."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to stop: kind, requester, and time (ms since 1970, UTC)."""

    kind: StopKind
    by: str
    at_ms: int


def request_stop(storage: Storage, sink_id: str, request: StopRequest) -> StopRequest:
    """Store the request and return it: as a hard one if a hard one is stored already.

    Raises MalformedTable, StorageFailed.
    """
    path = SinkPaths(sink_id).stop
    for _ in range(_TRIES_MAX):
        try:
            stored = storage.read_tagged(path)
        except NotFound:
            if storage.put_if_absent(path, _encode(request)):
                return request
            continue
        former = _decode(stored.content, path)
        is_hard = former is not None and former.kind is StopKind.HARD
        merged = replace(request, kind=StopKind.HARD) if is_hard else request
        if storage.replace_if_match(path, _encode(merged), stored.tag) is not None:
            return merged
    raise StorageFailed("others change the stop request all the time", path=path, tries=_TRIES_MAX)


def read_stop(storage: Storage, sink_id: str) -> StopRequest | None:
    """Return the request to stop this sink, or None. Raises MalformedTable."""
    path = SinkPaths(sink_id).stop
    try:
        content = storage.read(path)
    except NotFound:
        return None
    return _decode(content, path)


def clear_stop(storage: Storage, sink_id: str, *, requested_before_ms: int) -> None:
    """Remove a request to an earlier launch. A launch does this before it reads requests. A request
    that was made at `requested_before_ms` or later is for this launch and stays.

    Raises StorageFailed.
    """
    path = SinkPaths(sink_id).stop
    for _ in range(_TRIES_MAX):
        try:
            stored = storage.read_tagged(path)
        except NotFound:
            return
        if not _is_older(stored.content, path, requested_before_ms):
            return
        # Not deleted: a concurrent request would be deleted with it.
        if storage.replace_if_match(path, _NOTHING, stored.tag) is not None:
            return
    raise StorageFailed("others ask for a stop all the time", path=path, tries=_TRIES_MAX)


def _encode(request: StopRequest) -> bytes:
    return json.dumps(asdict(request)).encode()


def _is_older(content: bytes, path: str, requested_before_ms: int) -> bool:
    try:
        request = _decode(content, path)
    except MalformedTable:  # The request cannot be read.
        return True
    return request is not None and request.at_ms < requested_before_ms


def _decode(content: bytes, path: str) -> StopRequest | None:
    if content == _NOTHING:
        return None
    try:
        body = read_json(content)
        return StopRequest(StopKind(body["kind"]), str(body["by"]), int(body["at_ms"]))
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("the sink's stop request is damaged", path=path) from error
