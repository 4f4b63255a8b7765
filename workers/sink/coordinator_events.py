"""What the coordinator is told and what it asks for; `coordinator` says when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.sink.messages import MessageReceived, Report, Send, Tick
from workers.sink.offsets import Stale


@dataclass(frozen=True, slots=True)
class Started:
    """The epoch is acquired and the control topic is being listened to. The first event."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Begun:
    """Answer to `Begin`. Instants of one epoch rise."""

    instant: InstantTime
    offsets: Mapping[int, int]
    """Where each partition of the transaction begins."""
    schema: str
    read_at: InstantTime | str
    now_ms: int
    topic_id: str = ""
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class NothingToRead:
    """Answer to `Begin`: the topic ends where the table does. No instant was begun."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class BeginFailed:
    """Answer to `Begin`. No instant was begun, or nobody will commit it."""

    reason: str
    now_ms: int
    is_final: bool = False
    """A person must do something first: the sink stops with this reason."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The instant is completed."""

    offsets: Mapping[int, int]
    """The full map, as it stands in the commit."""


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The instant is certainly not completed."""

    reason: str
    may_retry: bool = False
    """The same commit may be tried again; otherwise the transaction is lost."""


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
    """Answer to `Abort`. Where it failed, the next `Begin` tries again: nobody commits it."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SchemaEvolved:
    """Answer to `EvolveSchema`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SchemaRefused:
    """Answer to `EvolveSchema`."""

    fields: tuple[str, ...]
    """Names that the table will never take; none when it may be tried again."""
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the sink to stop. A hard stop may follow a graceful one, and not the other
    way.
    """

    is_graceful: bool
    """Commit what was read, at once. Otherwise the transaction is aborted."""
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
    """Find out where the table stands and begin an instant there."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the files that these reports name, and the offsets where they end."""

    instant: InstantTime
    reports: tuple[Report, ...]
    """One of each partition, by partition."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Find out whether the instant is completed; if not, see to it that it never will be."""

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
    """The last effect: no further event matters, and nothing more is published."""

    reason: str
    is_error: bool = False


CoordinatorEffect = Send | Begin | Commit | Settle | Abort | EvolveSchema | Stopped
