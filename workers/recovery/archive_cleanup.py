"""The removal of archived instants from the active timeline, in ascending order.

The archiver does it, and the next process completes it if the archiver dies. The files of an
archived instant have no owner, and one that a stalled process publishes again would move the active
start back.
"""

from __future__ import annotations

import logging

from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.archive import list_archived_instants
from workers.timeline.instant import Action, CompletedInstant
from workers.timeline.timeline import Timeline

_log = logging.getLogger(__name__)


def finish_archiving(table: Table, timeline: Timeline) -> list[CompletedInstant]:
    """Remove stale pending files, and archived instants before the declared end of the archive;
    return the completed instants that were removed, ascending.
    """
    for stale in timeline.stale:
        _log.warning("removing pending files of an archived instant: instant=%s", stale)
        transitions.remove_stale(table.storage, stale)
    start = decisions.load_archive_border(table.storage)
    old = [
        instant
        for instant in timeline.iterate_completed()
        if instant.requested_at < start and instant.action is not Action.SAVEPOINT
    ]
    if not old:
        return []
    archived = {
        archived.instant.requested_at
        for archived in list_archived_instants(
            table.storage, requested_from=old[0].requested_at, is_partial=True
        )
    }
    removed = [instant for instant in old if instant.requested_at in archived]
    transitions.remove_archived(table.storage, removed)
    return removed
