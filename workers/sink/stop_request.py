"""A request to stop, as a file beside the table: workers know no database."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from workers.errors import MalformedTable, NotFound
from workers.sink.places import SinkPlaces
from workers.storage.base import Storage


class StopKind(StrEnum):
    GRACEFUL = "graceful"
    """End the transaction, commit it, acknowledge it, then stop."""
    HARD = "hard"
    """Abort the transaction and stop."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    kind: StopKind
    by: str
    at_ms: int


def request_stop(storage: Storage, sink_id: str, request: StopRequest) -> StopRequest:
    """What is asked for now: a hard stop stays one."""
    standing = read_stop(storage, sink_id)
    if standing is not None and standing.kind is StopKind.HARD:
        return standing
    storage.put(SinkPlaces(sink_id).stop, json.dumps(asdict(request)).encode())
    return request


def read_stop(storage: Storage, sink_id: str) -> StopRequest | None:
    """Raises MalformedTable."""
    path = SinkPlaces(sink_id).stop
    try:
        body = json.loads(storage.read(path))
        return StopRequest(StopKind(body["kind"]), str(body["by"]), int(body["at_ms"]))
    except NotFound:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("the sink's stop request is damaged", path=path) from error


def clear_stop(storage: Storage, sink_id: str) -> None:
    """Whoever starts the sink does this first, before it looks for requests."""
    storage.delete(SinkPlaces(sink_id).stop)
