"""The instants that rollbacks and restores undid, as far as the timeline and its history tell."""

from __future__ import annotations

from collections.abc import Iterator

from workers.clock import InstantTime
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.metadata import read_rollback_targets
from workers.timeline.savepoint_metadata import read_restore_targets
from workers.timeline.timeline import Timeline

_READERS = {Action.ROLLBACK: read_rollback_targets, Action.RESTORE: read_restore_targets}


def find_undone(table: Table, timeline: Timeline) -> frozenset[InstantTime]:
    """Return the instants that a completed rollback or restore names, archived ones included.
    Raises NotFound when the timeline changes meanwhile, MalformedTable.
    """
    return frozenset(_undone(table, timeline))


def _undone(table: Table, timeline: Timeline) -> Iterator[InstantTime]:
    for instant in timeline.completed():
        if (read := _READERS.get(instant.action)) is not None:
            yield from read(table.storage.read(table.layout.path(instant)))
    for archived in table.archived_instants(with_content=True, is_partial=True):
        read = _READERS.get(archived.instant.action)
        if read is not None and archived.metadata:
            yield from read(archived.metadata)
