"""Lookup of the outcome of an instant of any age: in its decision object, and, once that is removed
with the archived timeline, in the history.

An instant that is older than `archived_before` was either completed, and is in the history then, or
it never will be. Where that part of the history is lost, the note about archived writes may still
show that it was completed; nothing shows that it was not.
"""

from __future__ import annotations

from typing import Any

from workers.clock import InstantTime
from workers.errors import HistoryLost
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.archive import list_archived_times
from workers.timeline.archived_writes import read_archived_writes
from workers.timeline.decisions import CommitDecision, Decision, RollbackDecision

SETTLED_BY = "archiving"
"""The author in a decision whose object was removed."""


def find_decision(storage: Storage, instant: InstantTime) -> Decision | None:
    """Return the decision for the instant, or None if it is undecided. Raises HistoryLost if no
    record of it is left, MalformedTable.
    """
    decision = decisions.read(storage, instant)
    if isinstance(decision, RollbackDecision) or instant >= decisions.load_archive_border(storage):
        return decision
    # A commit that a stalled process decided only now, after its instant was archived, has no
    # effect.
    exactly: Any = {"requested_from": instant, "requested_until": instant}
    for archived in list_archived_times(storage, **exactly, is_partial=True):
        return CommitDecision(archived.completed_at, "", archived.action.value, "")
    if completed_at := read_archived_writes(storage).find_completion(instant):
        return CommitDecision(completed_at, "", "", "")
    list_archived_times(storage, **exactly)
    return RollbackDecision(
        by=SETTLED_BY, nonce="", reason="it was rolled back, and the timeline archived since"
    )


def is_gone(storage: Storage, instant: InstantTime) -> bool:
    """Check whether it is proved to have been rolled back: False where the history that would prove
    it is lost. Raises MalformedTable.
    """
    try:
        return isinstance(find_decision(storage, instant), RollbackDecision)
    except HistoryLost:
        return False
