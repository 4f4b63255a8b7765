"""What an operation has put on its table's timeline, as storage shows it. An instant is an
operation's own when its metadata carries the operation's id, whatever anybody reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controlplane.operations.models import Operation
from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.files.avro_container import decode_record
from workers.table.table import Table
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import (
    OPERATION_KEY,
    CommitMetadata,
    read_commit_metadata,
)
from workers.timeline.timeline import Timeline

LOOKED_AT_MAX = 200
"""Newest completed instants among which an operation's own is looked for when none was named."""


@dataclass(frozen=True, slots=True)
class OwnInstant:
    instant: Instant
    content: bytes
    """Of its completed file, or of the history's copy."""
    is_archived: bool = False

    @property
    def commit(self) -> CommitMetadata:
        return read_commit_metadata(self.content)


def own_instant(
    table: Table, timeline: Timeline, operation: Operation, actions: Iterable[Action]
) -> OwnInstant | None:
    """The newest completed instant of one of `actions` that carries the operation's id.

    Raises MalformedTable when the instant that it named cannot be read.
    """
    wanted = frozenset(actions)
    for instant in _candidates(timeline, operation.instant, wanted):
        content = _content(table, instant)
        if content is not None and _operation_of(instant, content) == str(operation.pk):
            return OwnInstant(instant, content)
    archived = archived_instant(table, operation.instant, wanted)
    if archived and _operation_of(archived.instant, archived.content) == str(operation.pk):
        return archived
    return None


def named_instant(
    table: Table, timeline: Timeline, requested_at: InstantTime, action: Action
) -> OwnInstant | None:
    """The completed instant of this time and this very action: a savepoint shares its commit's
    time.
    """
    for instant in timeline.iterate_completed():
        if instant.requested_at == requested_at and instant.action is action:
            content = _content(table, instant)
            return OwnInstant(instant, content) if content is not None else None
    return archived_instant(table, requested_at, frozenset({action}))


def archived_instant(
    table: Table, requested_at: InstantTime, actions: frozenset[Action]
) -> OwnInstant | None:
    if not requested_at:
        return None
    for archived in table.find_archived(requested_at, None):
        if archived.instant.action in actions:
            return OwnInstant(archived.instant, archived.metadata or b"", is_archived=True)
    return None


def _candidates(
    timeline: Timeline, named: InstantTime, actions: frozenset[Action]
) -> Iterator[Instant]:
    """The one that was named, then the others, newest first."""
    completed = [one for one in timeline.iterate_completed() if one.action in actions]
    yield from (one for one in completed if one.requested_at == named)
    newest = sorted(completed, key=lambda instant: instant.completed_at, reverse=True)
    yield from (one for one in newest[:LOOKED_AT_MAX] if one.requested_at != named)


def _content(table: Table, instant: Instant) -> bytes | None:
    try:
        return table.storage.read_listed(table.layout.path(instant))
    except NotFound:
        return None


def _operation_of(instant: Instant, content: bytes) -> str:
    try:
        if instant.action.writes_data:
            return read_commit_metadata(content).extra_metadata.get(OPERATION_KEY, "")
        return str((decode_record(content).get("extraMetadata") or {}).get(OPERATION_KEY, ""))
    except MalformedTable:
        return ""  # Damaged metadata of another instant is no word about this operation.
