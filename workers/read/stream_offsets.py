"""How far a stream has read a table: the newest commit that it delivered.

An offset names the commit and its completion time, and comes from the timeline alone: whoever asks
again after a restart gets the same one. A window between two offsets holds the same commits for
ever, or the table took one of them back, which is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.clock import InstantTime, format_instant
from workers.errors import InvalidInput
from workers.read.request import EARLIEST, moment
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.instant import CompletedInstant
from workers.timeline.timeline import Timeline

FROM_EARLIEST, FROM_LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to this commit was delivered."""

    completed_at: InstantTime = EARLIEST
    commit: InstantTime = ""
    """Its requested time; empty before the first commit."""

    def to_json(self) -> dict[str, str]:
        """As Spark keeps it in its checkpoint."""
        return {"completed_at": self.completed_at, "commit": self.commit}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> StreamOffset:
        """The offset of a checkpoint. Raises InvalidInput for one of another source."""
        completed_at, commit = given.get("completed_at"), given.get("commit")
        if not isinstance(completed_at, str) or not isinstance(commit, str):
            raise InvalidInput(
                "the checkpoint is of another source: its offset names no commit", offset=given
            )
        return cls(moment(completed_at), commit)


def newest_offset(table: Table) -> StreamOffset:
    """Behind all that is in the table now. Raises MalformedTable."""
    timeline = table.timeline()
    active = _newest(
        one
        for one in timeline.list_completed_writes()
        if not decisions.is_undone(table.storage, one.requested_at)
    )
    # Archivers go by the time of request.
    archived = table.list_archived_times(completed_after=active.completed_at)
    return max(active, _newest(archived), key=lambda offset: offset.completed_at)


def start_offset(table: Table, start: str) -> StreamOffset:
    """Where a stream begins: `earliest`, `latest`, or after all that had completed at a time.

    Raises InvalidInput for what is no time, or one that is still to come.
    """
    text = start.strip().lower()
    if text == FROM_LATEST:
        return newest_offset(table)
    at = moment(start)
    if at == EARLIEST:
        return StreamOffset()
    if at > format_instant(table.ports.clock.now_ms()):
        raise InvalidInput("a stream cannot begin at a time that is still to come", start=start)
    there = (*table.timeline().list_completed_writes(), *table.list_archived_times())
    return _newest(one for one in there if one.completed_at <= at)


def check_delivered(table: Table, timeline: Timeline, offset: StreamOffset) -> None:
    """Check that the table still holds what was delivered up to `offset`. Raises InvalidInput, and
    HistoryLost where nothing tells whether it does.
    """
    if not offset.commit:
        return
    active = timeline.find(offset.commit)
    stands = active is not None and active.is_completed
    if not stands:
        archived = table.list_archived_times(is_partial=True)
        stands = offset.commit in (one.requested_at for one in archived if one.action.writes_data)
    if not stands:
        table.find_archived(offset.commit, None)  # Raises HistoryLost where nothing tells.
    if not stands or decisions.is_undone(table.storage, offset.commit):
        raise InvalidInput(
            "the table no longer holds a commit that this stream has read: it was rolled back or"
            " restored away, or another table lies here now; start the query with a new checkpoint",
            commit=offset.commit,
            completed_at=offset.completed_at,
        )


def _newest(instants: Iterable[CompletedInstant]) -> StreamOffset:
    writes = [one for one in instants if one.action.writes_data]
    if not writes:
        return StreamOffset()
    last = max(writes, key=lambda write: (write.completed_at, write.requested_at))
    return StreamOffset(last.completed_at, last.requested_at)
