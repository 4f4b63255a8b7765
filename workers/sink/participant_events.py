"""Events and effects of a participant; see `participant`."""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.sink.messages import MessageReceived, Send, StartCommit, Tick


@dataclass(frozen=True, slots=True)
class Assigned:
    """First event: the consumer has the partition."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Polled:
    """The consumer read a batch. A `Write` among the effects refers to this batch."""

    first_offset: int | None
    """None for offsets without a record."""
    next_offset: int
    records: int
    seeks: int
    """Number of seeks of the consumer before it read the batch."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The writer's files are durable."""

    instant: InstantTime
    records: int
    statuses: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    bad_records: int = 0
    left_out: int = 0
    max_timestamp_ms: int = 0
    tombstones: int = 0
    tombstones_unmet: int = 0
    tombstones_not_looked_for: int = 0


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """A failure to open, read, write or close. The participant reports it and drops its writer."""

    instant: InstantTime
    reason: str


@dataclass(frozen=True, slots=True)
class NeedsSchema:
    """Records have fields for which the table has no column."""

    instant: InstantTime
    new_fields: str
    """Avro JSON."""


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The task ends, or another worker takes the partition."""

    reason: str


ParticipantEvent = (
    Assigned | MessageReceived | Tick | Polled | Closed | WriteFailed | NeedsSchema | LeaveRequested
)


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop reading."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue to read."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Move the consumer to this offset. Batches that it fetched before are invalid."""

    offset: int
    seeks: int
    """Number of seeks, which later batches contain."""


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """Create a writer and a decoder for the transaction of this START."""

    start: StartCommit


@dataclass(frozen=True, slots=True)
class Write:
    """Write the records of the batch from this offset on."""

    from_offset: int


@dataclass(frozen=True, slots=True)
class CloseWriter:
    """Make the files durable, then send `Closed`."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class DropWriter:
    """Stop at once and delete the files."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class StoreOffset:
    """Store the offset in the consumer group, for monitoring only. The sink does not read it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Last effect; the task may end."""

    reason: str


ParticipantEffect = (
    Pause
    | Resume
    | Seek
    | OpenWriter
    | Write
    | CloseWriter
    | DropWriter
    | StoreOffset
    | Send
    | Finished
)
