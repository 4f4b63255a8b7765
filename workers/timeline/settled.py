"""What became of an instant, however long ago: its decision object says it, and once that is gone
with the archived timeline, the history does.

An instant that is older than `archived_before` was either completed, and is in the history then, or
it never will be.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.archive import archived_times
from workers.timeline.decisions import CommitDecision, Decision, RollbackDecision

SETTLED_BY = "archiving"
"""In whose name an instant is gone whose decision object nobody has any more."""


def settled_decision(storage: Storage, instant: InstantTime) -> Decision | None:
    """What became of the instant; None while nothing is decided. Raises MalformedTable."""
    decision = decisions.read(storage, instant)
    if isinstance(decision, RollbackDecision) or instant >= decisions.archived_before(storage):
        return decision
    # A commit that a sleeper has decided only now, long after all was settled, does not stand.
    for archived in archived_times(storage, requested_from=instant):
        if archived.requested_at != instant:
            break
        if archived.completed_at is not None:
            return CommitDecision(archived.completed_at, "", archived.action.value, "")
    return RollbackDecision(
        by=SETTLED_BY, nonce="", reason="it was rolled back, and the timeline archived since"
    )


def is_gone(storage: Storage, instant: InstantTime) -> bool:
    """Whether it was decided to be rolled back. Raises MalformedTable."""
    return isinstance(settled_decision(storage, instant), RollbackDecision)
