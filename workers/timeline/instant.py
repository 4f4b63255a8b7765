"""An action on the table at one time. File names belong to `timeline.layout`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from workers.clock import InstantTime


class Action(StrEnum):
    """What an instant does, under the names that Hudi gives its files (format page 2.1)."""

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
        """True if its completed file is commit metadata with write stats."""
        return self in _WRITING

    @property
    def is_rewrite(self) -> bool:
        """True if it rewrites file groups by a plan; a pending one may be rolled back like a failed
        write.
        """
        return self in _REWRITING

    @property
    def completes_as(self) -> Action:
        """The action in the completed file's name (format page 2.1)."""
        return _COMPLETES_AS.get(self, self)


_WRITING = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
_REWRITING = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


class State(StrEnum):
    """The progress of an instant, in the words of its file names."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Instant:
    """A pending instant, or a `CompletedInstant`. Instants sort by request time, action, state and
    completion time; those of one request time are the pending plan and its result.
    """

    requested_at: InstantTime
    action: Action
    state: State
    completed_at: InstantTime | None = None
    """None while pending."""

    def __post_init__(self) -> None:
        is_completed = isinstance(self, CompletedInstant)
        assert is_completed == (self.state is State.COMPLETED), self
        assert is_completed == (self.completed_at is not None), self

    def __lt__(self, other: Instant) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[InstantTime, Action, State, InstantTime]:
        return (self.requested_at, self.action, self.state, self.completed_at or "")

    @property
    def is_completed(self) -> bool:
        """True for a `CompletedInstant`, where types do not matter."""
        return self.state is State.COMPLETED

    def inflight(self) -> Instant:
        """Return the next state of a requested instant."""
        assert self.state is State.REQUESTED, self
        return replace(self, state=State.INFLIGHT)

    def complete(self, at: InstantTime) -> CompletedInstant:
        """Return the instant with the completion time `at`, later than the request, and the action
        in its file's name.
        """
        assert self.state is not State.COMPLETED, self
        assert at > self.requested_at, (at, self)
        return CompletedInstant(self.requested_at, self.action.completes_as, State.COMPLETED, at)


@dataclass(frozen=True, slots=True)
class CompletedInstant(Instant):
    """An instant whose completed file exists, with the time in that file's name."""

    completed_at: InstantTime
