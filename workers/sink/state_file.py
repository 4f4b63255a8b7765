"""`state.json`: the state of a sink for pages and shells. No decision depends on it.

The coordinator writes the whole file at each transition. It is bounded: long lists keep their
newest entries, and long texts are truncated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.json_text import read_json
from workers.sink.sink_paths import SinkPaths
from workers.storage.base import Storage

VERSION = 1
PARTICIPANTS_MAX = 10_000
TRANSACTIONS_MAX = 50
TRACE_MAX = 500
TEXT_MAX = 500
IGNORED_PREFIX = "control_topic_"
"""Prefix of the counters of control records that are not messages of this sink."""
_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class ParticipantSnapshot:
    """A partition and its participant; empty texts if no participant has reported."""

    partition: int
    participant: str = ""
    worker: str = ""
    """Host and process."""
    state: str = ""
    local_offset: int | None = None
    """Next offset to read."""
    table_offset: int | None = None
    """Next offset that is not in the table."""
    broker_offset: int | None = None
    """High watermark."""
    has_reported: bool = False
    is_member: bool = True
    """False if the transaction does not have the partition, which waits for the next one then."""
    seen_ms: int = 0


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    """A completed transaction; `outcome` is committed or aborted, times are ms since 1970."""

    instant: InstantTime
    outcome: str
    started_ms: int
    ended_ms: int
    rows: int = 0
    bad_rows: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One control message or transition."""

    at_ms: int
    kind: str
    sender: str
    partition: int | None = None
    instant: InstantTime = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SinkState:
    """The content of `state.json`; times are milliseconds since 1970, UTC."""

    sink_id: str
    topic: str
    epoch: int
    state: str
    """State of the coordinator."""
    instant: InstantTime = ""
    deadline_ms: int | None = None
    owner: str = ""
    updated_ms: int = 0
    reason: str = ""
    participants: tuple[ParticipantSnapshot, ...] = ()
    transactions: tuple[TransactionSnapshot, ...] = ()
    """The newest last."""
    trace: tuple[TraceEntry, ...] = ()
    """The newest last."""
    counters: Mapping[str, int] = field(default_factory=dict)


def put_state(storage: Storage, state: SinkState) -> bool:
    """Store the state. Return False, without a change, if a coordinator with a higher epoch stored
    its state before.
    """
    try:
        former = read_state(storage, state.sink_id)
    except MalformedTable:  # The file is for display only, so it is replaced.
        former = None
    if former is not None and former.epoch > state.epoch:
        return False
    body = {"version": VERSION, **asdict(_truncate(state))}
    storage.put(SinkPaths(state.sink_id).state, json.dumps(body, separators=(",", ":")).encode())
    return True


def read_state(storage: Storage, sink_id: str) -> SinkState | None:
    """Return the stored state, or None if there is none. Raises MalformedTable, also for another
    version of the format.
    """
    path = SinkPaths(sink_id).state
    try:
        content = storage.read(path)
    except NotFound:
        return None
    try:
        return _decode(content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedTable("the sink's state is not readable", path=path) from error


def _truncate(state: SinkState) -> SinkState:
    return replace(
        state,
        reason=state.reason[:TEXT_MAX],
        participants=state.participants[:PARTICIPANTS_MAX],
        transactions=tuple(
            replace(transaction, reason=transaction.reason[:TEXT_MAX])
            for transaction in state.transactions[-TRANSACTIONS_MAX:]
        ),
        trace=tuple(
            replace(entry, detail=entry.detail[:TEXT_MAX]) for entry in state.trace[-TRACE_MAX:]
        ),
    )


def _decode(content: bytes) -> SinkState:
    if len(content) > _BYTES_MAX:
        raise ValueError("too long")
    body = read_json(content)
    if body.pop("version") != VERSION:
        raise ValueError("another version")
    body["participants"] = _decode_entries(ParticipantSnapshot, body["participants"])
    body["transactions"] = _decode_entries(TransactionSnapshot, body["transactions"])
    body["trace"] = _decode_entries(TraceEntry, body["trace"])
    return SinkState(**body)


_Entry = TypeVar("_Entry", ParticipantSnapshot, TransactionSnapshot, TraceEntry)


def _decode_entries(kind: type[_Entry], entries: list[dict[str, Any]]) -> tuple[_Entry, ...]:
    names = {field_.name for field_ in fields(kind)}
    return tuple(kind(**{key: entry[key] for key in entry if key in names}) for entry in entries)
