"""Timeline files as another engine leaves them: no decision object, and what we never write."""

from __future__ import annotations

from collections.abc import Mapping

from workers.clock import next_instant
from workers.table.table import Table
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.metadata import CommitMetadata


def foreign_commit(
    table: Table, extra: Mapping[str, str], operation: str, action: Action
) -> CompletedInstant:
    """A completed commit of no files."""
    content = CommitMetadata({}, dict(extra), operation).encode(action)
    requested = next_instant(table.ports.clock, table.timeline().last_time)
    completed = next_instant(table.ports.clock, requested)
    done = CompletedInstant(requested, action, State.COMPLETED, completed)
    for pending in (
        Instant(requested, action, State.REQUESTED),
        Instant(requested, action, State.INFLIGHT),
    ):
        table.storage.put(table.layout.path(pending), b"")
    table.storage.put(table.layout.path(done), content)
    return done


def foreign_pending(table: Table, extra: Mapping[str, str]) -> Instant:
    """An inflight commit whose file says already what it is going to commit."""
    content = CommitMetadata({}, dict(extra), "UPSERT").encode(Action.COMMIT)
    requested = next_instant(table.ports.clock, table.timeline().last_time)
    inflight = Instant(requested, Action.COMMIT, State.INFLIGHT)
    table.storage.put(table.layout.path(Instant(requested, Action.COMMIT, State.REQUESTED)), b"")
    table.storage.put(table.layout.path(inflight), content)
    return inflight
