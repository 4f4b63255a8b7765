"""Which commits that somebody saw have been rolled back since; archived ones have not.

The history tells: what the archiver takes off the timeline is durable there before. Asking only
whether an instant is older than the timeline's start would not do: a listing that runs beside an
archiver has holes (bug A10).
"""

from __future__ import annotations

from workers.concurrency.conflicts import Conflict, vanished
from workers.table.table import Table
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import MOVED_ROWS_KEY, CommitMetadata
from workers.timeline.timeline import Timeline


def taken_back(table: Table, before: Timeline, after: Timeline) -> list[Instant]:
    """Writes that were complete in `before`, and in `after` neither complete nor archived.

    Raises MalformedTable.
    """
    gone = vanished(before.instants, after.instants)
    if table.layout.version == 1:  # Its archive is not read.
        first = after.first_time
        return [one for one in gone if first is None or one.requested_at >= first]
    history = ArchivedTimeline(table.storage, table.layout)
    return [one for one in gone if history.completed_at(one.requested_at) is None]


def lost_base(
    table: Table, before: Timeline, after: Timeline, metadata: CommitMetadata, writer: str
) -> Conflict | None:
    """A base file that was merged into ours came from a commit that has been taken back since."""
    has_moved = MOVED_ROWS_KEY in metadata.extra_metadata
    for lost in taken_back(table, before, after):
        # Of a replacement everything may be built on it: the file groups that it took away are
        # back, and the ids of new ones were chosen after it.
        # Whoever moved rows read them, whatever commit they are of.
        rests_on_all = lost.action is Action.REPLACECOMMIT or has_moved
        built_on_it = tuple(
            sorted(
                (stat.partition_path, stat.file_id)
                for stat in metadata.stats
                if rests_on_all or stat.prev_commit == lost.requested_at
            )
        )
        if built_on_it or rests_on_all:
            return Conflict(
                kind="write",
                message="a commit that this write was built on was rolled back",
                rival=lost.requested_at,
                file_groups=built_on_it,
                writer=writer,
                rule=taken_back.__name__,
            )
    return None
