"""Events and effects of the coordinator; see `coordinator`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.sink.messages import MessageReceived, Report, Send, Tick
from workers.sink.offsets import Stale


@dataclass(frozen=True, slots=True)
class Started:
    """First event: the epoch is acquired and the control topic is being read."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Begun:
    """Answer to `Begin`. Instants of one epoch rise."""

    instant: InstantTime
    offsets: Mapping[int, int]
    """First offset of each partition of the transaction."""
    schema: str
    read_at: InstantTime | str
    now_ms: int
    topic_id: str = ""
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class NothingToRead:
    """Answer to `Begin`: the topic has no new records. No instant was begun."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class BeginFailed:
    """Answer to `Begin`. No instant was begun, or it will not be committed."""

    reason: str
    now_ms: int
    is_final: bool = False
    """A user must act first: the sink stops with this reason."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The instant is completed."""

    offsets: Mapping[int, int]
    """The full map, as in the commit."""


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The instant is certainly not completed."""

    reason: str
    can_retry: bool = False
    """Whether the same commit can be retried. Otherwise the transaction is lost."""


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """The instant may be completed, now or later: it must be settled first."""

    reason: str


CommitResult = Committed | Stale | CommitFailed | CommitUnknown


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """Answer to `Commit`."""

    result: CommitResult
    now_ms: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Answer to `Settle`: after CommitFailed the instant can never become completed."""

    result: Committed | CommitFailed | CommitUnknown
    now_ms: int


@dataclass(frozen=True, slots=True)
class AbortEnded:
    """Answer to `Abort`. If the rollback failed, the next `Begin` retries it."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SchemaEvolved:
    """Answer to `EvolveSchema`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SchemaRefused:
    """Answer to `EvolveSchema`."""

    fields: tuple[str, ...]
    """Names that the table will always reject; empty if another attempt may succeed."""
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Request to stop the sink. A hard stop may follow a graceful one, but not the reverse."""

    is_graceful: bool
    """Commit the records that were read, at once. Otherwise the transaction is aborted."""
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another coordinator has a higher epoch, or this one lost partition 0."""

    reason: str
    now_ms: int


CoordinatorEvent = (
    Started
    | Tick
    | MessageReceived
    | Begun
    | NothingToRead
    | BeginFailed
    | CommitEnded
    | Settled
    | AbortEnded
    | SchemaEvolved
    | SchemaRefused
    | StopRequested
    | Fenced
)


@dataclass(frozen=True, slots=True)
class Begin:
    """Find the position of the table and begin an instant there."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the files in these reports, and their end offsets."""

    instant: InstantTime
    reports: tuple[Report, ...]
    """One report of each partition, sorted by partition."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Find out whether the instant is completed. If not, ensure that it never will be."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class Abort:
    """Roll the instant back."""

    instant: InstantTime
    reason: str


@dataclass(frozen=True, slots=True)
class EvolveSchema:
    """Add columns, by the table's schema rules."""

    new_fields: str
    """Avro JSON."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Last effect: further events are ignored, and nothing more is published."""

    reason: str
    is_error: bool = False


CoordinatorEffect = Send | Begin | Commit | Settle | Abort | EvolveSchema | Stopped
