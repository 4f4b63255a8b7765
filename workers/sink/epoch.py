"""The epoch of a sink: a number that each coordinator raises by one conditional write (KS3).

The process that raised it last is the coordinator. All others are fenced: participants ignore lower
epochs, and the commit checks the epoch under the table lock.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass

from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.json_text import read_json
from workers.ports import Ports
from workers.sink.sink_paths import SinkPaths
from workers.storage.base import Storage

_TRIES_MAX = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch file's content: who raised the number, on which host, when (ms since 1970, UTC)."""

    number: int
    owner: str
    host: str
    pid: int
    at_ms: int


def acquire_epoch(storage: Storage, sink_id: str, ports: Ports, *, owner: str) -> Epoch:
    """Raise the epoch by one and return it. No other process gets the same number.

    Raises WriteOutcomeUnknown, after which the number may be in use and the next attempt returns a
    higher one. Raises StorageFailed if other processes raise the epoch all the time.
    """
    path = SinkPaths(sink_id).epoch
    for _ in range(_TRIES_MAX):
        try:
            stored = storage.read_tagged(path)
        except NotFound:
            mine = _next(None, ports, owner)
            if storage.put_if_absent(path, _encode(mine)):
                return mine
            continue
        mine = _next(_decode(stored.content, path), ports, owner)
        if storage.replace_if_match(path, _encode(mine), stored.tag) is not None:
            return mine
    raise StorageFailed("others raise the epoch faster", path=path, tries=_TRIES_MAX)


def read_epoch(storage: Storage, sink_id: str) -> Epoch | None:
    """Return the current epoch, or None before the first coordinator. Raises MalformedTable."""
    path = SinkPaths(sink_id).epoch
    try:
        return _decode(storage.read(path), path)
    except NotFound:
        return None


def _next(former: Epoch | None, ports: Ports, owner: str) -> Epoch:
    return Epoch(
        number=former.number + 1 if former else 1,
        owner=owner,
        host=socket.gethostname(),
        pid=os.getpid(),
        at_ms=ports.clock.now_ms(),
    )


def _encode(epoch: Epoch) -> bytes:
    return json.dumps(asdict(epoch)).encode()


def _decode(content: bytes, path: str) -> Epoch:
    try:
        epoch = Epoch(**read_json(content))
    except (ValueError, TypeError) as error:
        raise MalformedTable("the sink's epoch is damaged", path=path) from error
    if type(epoch.number) is not int or epoch.number < 1:
        raise MalformedTable("the sink's epoch must be a positive number", path=path)
    return epoch
