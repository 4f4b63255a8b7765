"""What a participant is told and what it asks for; `participant` says when."""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.sink.messages import MessageReceived, Send, StartCommit, Tick


@dataclass(frozen=True, slots=True)
class Assigned:
    """The consumer has the partition. The first event."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Polled:
    """The consumer read a batch. `Write` among the effects is about this batch."""

    first_offset: int | None
    """None when there was no record, only offsets without any."""
    next_offset: int
    records: int
    seeks: int
    """How often the consumer had been sent to an offset when it read this."""


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
    """Opening, reading, writing or closing failed: the participant reports it, and drops its
    writer.
    """

    instant: InstantTime
    reason: str


@dataclass(frozen=True, slots=True)
class NeedsSchema:
    """Records bring fields without a column."""

    instant: InstantTime
    new_fields: str
    """Avro JSON."""


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The task ends, or the partition goes elsewhere."""

    reason: str


ParticipantEvent = (
    Assigned | MessageReceived | Tick | Polled | Closed | WriteFailed | NeedsSchema | LeaveRequested
)


@dataclass(frozen=True, slots=True)
class Pause:
    """Read no more."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Read on."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Send the consumer here; whatever it fetched before is void."""

    offset: int
    seeks: int
    """What batches carry from now on."""


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """Make a writer and a decoder for the transaction of this START."""

    start: StartCommit


@dataclass(frozen=True, slots=True)
class Write:
    """The records of the batch that lie at this offset or above it."""

    from_offset: int


@dataclass(frozen=True, slots=True)
class CloseWriter:
    """Make the files durable, then say `Closed`."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class DropWriter:
    """Stop at once and delete the files."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class StoreOffset:
    """Tell the consumer group, for those who watch it. Nobody reads it back."""

    offset: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing more will come; the task may end."""

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
