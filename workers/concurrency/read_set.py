"""The read set of a write: the file slices and the keys that decided what it writes.

A competing commit that changed a key of the read set is a conflict (`read_keys`). So is a rollback
or a restore that undid a commit with files in a slice of the read set: the write may delete, keep
or place rows because of values that never counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule, FileGroupKey
from workers.concurrency.read_keys import ReadKeysSource
from workers.concurrency.rolled_back_commits import find_pending_undos, find_rolled_back
from workers.files.names import parse_log_file
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline

Slices: TypeAlias = Callable[[], Iterable[FileSlice]]
"""File slices, listed when they are needed."""


@dataclass(frozen=True, slots=True)
class ReadSet:
    """The part of the starting table that a write read."""

    slices: Slices | None = None
    """Slices whose rows, or whose lack of rows, decided what is written. None: nothing was read."""
    keys: ReadKeysSource | None = None
    """Keys that left no trace in a file."""

    def find_file_groups(self, instant: InstantTime) -> tuple[FileGroupKey, ...]:
        """Return the file groups of which the write read files of this instant."""
        if self.slices is None:
            return ()
        return tuple(
            sorted(
                (slice_.partition, slice_.file_id)
                for slice_ in self.slices()
                if _can_contain(slice_, instant)
            )
        )


def find_undone_read(
    table: Table, before: Timeline, after: Timeline, reads: ReadSet, writer: str
) -> Conflict | None:
    """Return the conflict with a commit that was complete in `before` and undone in `after`, or
    decided to be, and that the write was built on; None if there is none. Raises MalformedTable.
    """
    for lost in (*find_rolled_back(table, before, after), *find_pending_undos(table, after)):
        file_groups = reads.find_file_groups(lost.requested_at)
        # The file groups that a replacement removed are restored, and the ids of new ones were
        # chosen after it: every write is built on it.
        if file_groups or lost.action is Action.REPLACECOMMIT:
            return _build_conflict(lost, file_groups, writer)
    return None


def undone_schema_conflict(lost: Instant, writer: str) -> Conflict:
    """Build the conflict of a write whose files have the schema of `lost`, which was undone."""
    return Conflict(
        kind="write",
        message=f"the schema of commit {lost.requested_at}, under which this write stored rows, "
        "was rolled back meanwhile; write again",
        rival=lost.requested_at,
        writer=writer,
        rule=ConflictRule.TAKEN_BACK,
    )


def _build_conflict(lost: Instant, file_groups: tuple[FileGroupKey, ...], writer: str) -> Conflict:
    return Conflict(
        kind="write",
        message=f"commit {lost.requested_at}, which this write read, was rolled back meanwhile; "
        "write again",
        rival=lost.requested_at,
        file_groups=file_groups,
        writer=writer,
        rule=ConflictRule.TAKEN_BACK,
    )


def _can_contain(slice_: FileSlice, instant: InstantTime) -> bool:
    """Check whether the slice may hold rows or deletes of the instant."""
    if slice_.base_instant == instant:
        return True
    if slice_.log_files and (slice_.block_instants, slice_.late_blocks) != (None, None):
        return True  # These logs may hold blocks of several writers.
    names = (parse_log_file(path.rpartition("/")[2]) for path in slice_.log_files)
    return any(name is not None and name.instant == instant for name in names)
