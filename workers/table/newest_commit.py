"""The newest completed commit whose metadata contains a value, archived or not.

Other writers' commits, compaction, clustering, cleaning and archiving come between and hide nothing
(K6). Active and archived commits are searched by completion time. What was read of a completed
commit is cached, because it never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from workers.clock import InstantTime
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.instant import Instant
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline

Said = TypeVar("Said")
Reading = Callable[[Mapping[str, str], InstantTime], Said | None]
"""Reads a value from the extra metadata of an instant; None if it contains none."""


class NewestCommit(Generic[Said]):
    """A repeatable search for the newest commit of one table that contains a value."""

    def __init__(self, table: Table, reading: Reading[Said]) -> None:
        self._table = table
        self._reading = reading
        self._read: dict[Instant, Said | None] = {}
        self._mark = -1
        self._archived_times: list[InstantTime] = []
        self._checked_since: InstantTime | None = None
        """The history, as it was at the mark, has lost none that completed later."""
        self._archived: dict[InstantTime, Said] | None = None
        """Completion time -> value of the commit; None until the archived commits are needed."""

    def of(self, timeline: Timeline) -> Said | None:
        """Return the value of the newest commit that has one, or None. Raises HistoryLost,
        MalformedTable, and what the reading raises.
        """
        completed_at, active = self._newest_active(timeline)
        # Read after the active timeline: what an archiver moves in between is in one or both.
        archived = self._newest_archived(completed_at)
        return active if archived is None else archived

    def _newest_active(self, timeline: Timeline) -> tuple[InstantTime, Said | None]:
        writes = timeline.list_completed_writes()
        self._read = {write: self._read[write] for write in writes if write in self._read}
        for instant in reversed(writes):
            if instant not in self._read:
                extra = read_instant(self._table, instant).extra_metadata
                self._read[instant] = self._reading(extra, instant.requested_at)
            value = self._read[instant]
            # Decided to go, though its file may still be there.
            if value is not None and not decisions.is_undone(
                self._table.storage, instant.requested_at
            ):
                return instant.completed_at, value
        return "", None

    def _newest_archived(self, since: InstantTime) -> Said | None:
        """Search the archived commits that completed after `since`: archivers go by request time.
        Raises HistoryLost when lost parts of the history may contain one.
        """
        mark = self._table.archive_mark()
        if mark != self._mark:
            self._archived = None
            archived = self._table.list_archived_times(is_partial=True)
            self._archived_times = [
                instant.completed_at for instant in archived if instant.action.writes_data
            ]
            self._checked_since = None
            self._mark = mark
        if self._checked_since is None or since < self._checked_since:
            self._table.list_archived_times(completed_after=since)
            self._checked_since = since
        if max(self._archived_times, default="") <= since:
            return None
        if self._archived is None:
            self._archived = self._read_archived()
        newest = max(self._archived, default="")
        return self._archived[newest] if newest > since else None

    def _read_archived(self) -> dict[InstantTime, Said]:
        by_completion: dict[InstantTime, Said] = {}
        for archived in self._table.list_archived_instants(with_content=True, is_partial=True):
            if archived.metadata is None or not archived.instant.action.writes_data:
                continue
            extra = read_commit_metadata(archived.metadata).extra_metadata
            value = self._reading(extra, archived.instant.requested_at)
            if value is not None:
                by_completion[archived.instant.completed_at] = value
        return by_completion
