"""Commits of an earlier timeline that have been rolled back since. Archived ones have not.

The archived timeline decides: the archiver makes an instant durable there before it removes it from
the active timeline. A comparison with the timeline's start would not suffice: a listing that runs
concurrently with an archiver has holes (bug A10).
"""

from __future__ import annotations

from workers.concurrency.conflicts import find_missing_commits
from workers.schema.equality import equal
from workers.table.schema_history import SchemaVersion, find_schema_at
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline


def find_rolled_back(table: Table, before: Timeline, after: Timeline) -> list[Instant]:
    """Return the writes that were complete in `before`, and in `after` are neither complete nor
    archived.

    Raises HistoryLost, MalformedTable.
    """
    missing = find_missing_commits(before.instants, after.instants)
    if table.layout.version == 1:  # Its archive is not read.
        first = after.first_time
        return [instant for instant in missing if first is None or instant.requested_at >= first]
    history = ArchivedTimeline(table.storage, table.layout)
    unarchived = [
        instant for instant in missing if history.find_completion(instant.requested_at) is None
    ]
    if lost := [instant for instant in unarchived if history.is_lost(instant.requested_at)]:
        table.find_archived(lost[0].requested_at, None)  # Raises HistoryLost, with what is missing.
    return unarchived


def find_pending_undos(table: Table, timeline: Timeline) -> list[Instant]:
    """Return the completed writes of `timeline` whose undo is decided but not finished. Reads
    nothing if no rollback is pending. Raises MalformedTable.
    """
    if not any(instant.action is Action.ROLLBACK for instant in timeline.pending()):
        return []
    decided = set(decisions.undone_instants(table.storage))
    return [
        instant
        for instant in timeline.list_completed_writes()
        if instant.requested_at in decided
        and decisions.is_undone(table.storage, instant.requested_at)
    ]


def find_undone_schema(
    table: Table, used: SchemaVersion | None, before: Timeline, after: Timeline
) -> Instant | None:
    """Return the commit that carried the schema `used`, if it was undone since `before` and the
    table has another schema now. Files that were written under `used` may be unreadable then.

    Raises MalformedTable.
    """
    if used is None:
        return None
    pending = find_pending_undos(table, after)
    undone = (*find_rolled_back(table, before, after), *pending)
    lost = next((instant for instant in undone if instant.requested_at == used.instant), None)
    if lost is None or lost in pending:
        return lost
    now = find_schema_at(table, after)
    return None if now is not None and equal(now.schema, used.schema) else lost
