"""One action on the table at one time. File names belong to `timeline.layout`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from workers.clock import InstantTime


class Action(StrEnum):
    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def writes_data(self) -> bool:
        return self in _WRITING

    @property
    def is_rerun(self) -> bool:
        """A pending one outlives its executor: the plan stays and is carried out again (bug B9)."""
        return self in _RERUN

    @property
    def is_rewrite(self) -> bool:
        """Rewrites file groups by a plan; a pending one may be taken back as a failed write is."""
        return self in _REWRITING

    @property
    def completes_as(self) -> Action:
        """The action in the completed file's name (format page 2.1)."""
        return _COMPLETES_AS.get(self, self)


_WRITING = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
_RERUN = frozenset(
    {
        Action.COMPACTION,
        Action.LOGCOMPACTION,
        Action.CLUSTERING,
        Action.CLEAN,
        Action.ROLLBACK,
        Action.RESTORE,
    }
)
_REWRITING = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


class State(StrEnum):
    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    requested_at: InstantTime
    action: Action
    state: State
    completed_at: InstantTime | None = None
    """None while pending."""

    def __post_init__(self) -> None:
        assert (self.state is State.COMPLETED) == (self.completed_at is not None), self

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    def inflight(self) -> Instant:
        assert self.state is State.REQUESTED, self
        return replace(self, state=State.INFLIGHT)

    def completed(self, at: InstantTime) -> Instant:
        assert self.state is not State.COMPLETED, self
        assert at > self.requested_at, (at, self)
        return replace(
            self, action=self.action.completes_as, state=State.COMPLETED, completed_at=at
        )
