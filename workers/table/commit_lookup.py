"""Metadata of one commit, also if its file was repaired or archived since it was listed."""

from __future__ import annotations

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import CommitMetadata, read_commit_metadata


def parse_or_reread(content: bytes, table: Table, instant: Instant) -> CommitMetadata:
    """Parse `content`, which storage may have cached from the completed file of the instant. If it
    is damaged, read the file again: it may have been repaired since. Raises MalformedTable.
    """
    try:
        return read_commit_metadata(content)
    except MalformedTable:
        try:
            current = table.storage.read(table.layout.path(instant))
        except NotFound:
            current = content
        if current == content:
            raise
    return read_commit_metadata(current)


def find_archived_file(table: Table, instant: Instant) -> bytes | None:
    """Return the metadata that the history has of an instant that was archived since it was listed,
    or None. It is durable there before the timeline's file goes. Raises MalformedTable.
    """
    archived = table.find_archived(instant.requested_at, instant.completed_at)
    return next(
        (found.metadata for found in archived if found.instant.action is instant.action), None
    )


def find_archived_content(
    table: Table, requested_at: InstantTime, completed_at: InstantTime | None = None
) -> bytes | None:
    """Return the stored metadata of the archived write of these times, or None. Raises
    MalformedTable.
    """
    archived = table.find_archived(requested_at, completed_at)
    return next((found.metadata for found in archived if found.instant.action.writes_data), None)
