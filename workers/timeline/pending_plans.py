"""Files of pending compactions and clusterings: they must exist until the plan ran (G2), and no
second plan may include the same file group.
"""

from __future__ import annotations

from collections.abc import Iterator

from workers.clock import InstantTime
from workers.errors import NotFound
from workers.storage.base import Storage
from workers.timeline.instant import Action, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.service_plans import (
    FileGroupKey,
    PlannedSlice,
    read_clustering_plan,
    read_compaction_plan,
)
from workers.timeline.timeline import Timeline

_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)
_CLUSTERINGS = (Action.CLUSTERING, Action.REPLACECOMMIT)


def pending_plan_files(storage: Storage, timeline: Timeline) -> dict[InstantTime, frozenset[str]]:
    """Return the files that each pending plan will read, relative to the table.

    Raises MalformedTable when a plan cannot be read: a file it needs must never be considered free.
    """
    return {
        instant.requested_at: frozenset(path for file_slice in slices for path in file_slice.files)
        for instant, slices in pending_plans(storage, timeline)
    }


def pending_file_groups(storage: Storage, timeline: Timeline) -> dict[FileGroupKey, InstantTime]:
    """Return the file groups that a pending plan will rewrite. Raises as `pending_plan_files`."""
    return {
        file_slice.key: instant.requested_at
        for instant, slices in pending_plans(storage, timeline)
        for file_slice in slices
    }


def pending_plans(
    storage: Storage, timeline: Timeline
) -> Iterator[tuple[Instant, tuple[PlannedSlice, ...]]]:
    """Yield pending compactions and clusterings, a clustering under its old name included
    (bug E1).
    """
    for instant in timeline.pending():
        if instant.action not in (*_COMPACTIONS, *_CLUSTERINGS):
            continue
        slices = parse_planned_slices(instant.action, plan_content(storage, instant))
        if slices:
            yield instant, slices


def parse_planned_slices(action: Action, content: bytes) -> tuple[PlannedSlice, ...]:
    """Parse the slices of a plan; none for an empty file, which is not a plan at all."""
    if not content:
        return ()
    if action in _COMPACTIONS:
        return read_compaction_plan(content).slices
    plan = read_clustering_plan(content)
    return plan.slices if plan else ()


def plan_content(storage: Storage, instant: Instant) -> bytes:
    """Return the requested file of a pending instant, or empty when it was removed."""
    requested = Instant(instant.requested_at, instant.action, State.REQUESTED)
    try:
        return storage.read(TimelineLayout().path(requested))
    except NotFound:  # Executed or rolled back since the timeline was listed.
        return b""
