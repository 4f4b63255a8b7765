"""The table's savepoints: commits whose files must stay until the savepoint is deleted.

A savepoint has the request time of its commit. Every process that deletes files reads them first.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.errors import NotFound
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.savepoint_metadata import SavepointMetadata, read_savepoint_metadata
from workers.timeline.timeline import Timeline


def read_savepoints(table: Table, timeline: Timeline) -> dict[InstantTime, SavepointMetadata]:
    """Return the savepoints by the request time of their commit, ascending.

    Raises MalformedTable when one cannot be read: what it protects must never be guessed.
    """
    savepoints = {}
    for instant in timeline.iterate_completed():
        if instant.action is not Action.SAVEPOINT:
            continue
        try:
            content = table.storage.read(table.layout.path(instant))
        except NotFound:  # Deleted since the timeline was listed.
            continue
        savepoints[instant.requested_at] = read_savepoint_metadata(content)
    return savepoints


def list_savepoint_files(table: Table, timeline: Timeline) -> frozenset[str]:
    """Return the files of all savepoints, relative to the table."""
    savepoints = read_savepoints(table, timeline).values()
    return frozenset(path for savepoint in savepoints for path in savepoint.paths)
