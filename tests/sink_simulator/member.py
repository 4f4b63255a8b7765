"""A participant at work: the machine, its consumer and its writer, all of which may fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.sink_simulator.world import Violation
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Message,
    MessageReceived,
    ParticipantName,
    Send,
    StartCommit,
    Tick,
)
from workers.sink.participant import ParticipantState
from workers.sink.participant_events import (
    Assigned,
    Closed,
    CloseWriter,
    DropWriter,
    Finished,
    LeaveRequested,
    NeedsSchema,
    OpenWriter,
    ParticipantEffect,
    ParticipantEvent,
    Pause,
    Polled,
    Resume,
    Seek,
    StoreOffset,
    Write,
    WriteFailed,
)

if TYPE_CHECKING:
    from tests.sink_simulator.worker import Worker

FIELD = '{"fields": [{"name": "x"}]}'


@dataclass(slots=True)
class Writer:
    start: StartCommit
    rows: list[int] = field(default_factory=list)
    """Not in a file yet."""
    files: list[int] = field(default_factory=list)
    records: int = 0


class Member:
    def __init__(self, worker: Worker, partition: int, participant_id: str) -> None:
        self.worker, self.simulation = worker, worker.simulation
        self.partition = partition
        self.state = ParticipantState(
            partition, participant_id, self.simulation.now_ms, worker.run.run_id
        )
        self.position, self.seeks, self.is_paused, self.is_polling = 0, 0, False, False
        self.pipeline: deque[tuple[Polled, list[int]]] = deque()
        """Batches that were read and are being decoded."""
        self.writer: Writer | None = None
        self.is_finished = False
        worker.later(0, self.feed, Assigned(self.simulation.now_ms))

    def hear(self, message: Message) -> None:
        if self.is_finished:
            return
        before = self.state
        self.feed(MessageReceived(message, self.simulation.now_ms))
        if self.state is not before:
            self._judge(before, message)

    def tick(self) -> None:
        if not self.is_finished:
            self.feed(Tick(self.simulation.now_ms))

    def leave(self) -> None:
        if not self.is_finished:
            self.feed(LeaveRequested("the run is over"))

    def feed(self, event: ParticipantEvent, batch: Sequence[int] = ()) -> None:
        self.state, effects = self.simulation.rules.participant(self.state, event)
        for effect in effects:
            self._perform(effect, batch)

    def _perform(self, effect: ParticipantEffect, batch: Sequence[int]) -> None:
        match effect:
            case Send(message):
                self.worker.publish(message)
            case Write(from_offset):
                self._write([one for one in batch if one >= from_offset])
            case Pause():
                self.is_paused = True
            case Resume():
                self.is_paused = False
                self._poll_later()
            case Seek(offset, seeks):
                self.position, self.seeks = offset, seeks
            case OpenWriter(start):
                self.writer = Writer(start)
            case CloseWriter():
                self._close()
            case DropWriter():
                self._drop()
            case Finished():
                self.is_finished = True
            case StoreOffset():
                pass

    # Reading ----------------------------------------------------------------------------------

    def _poll_later(self) -> None:
        if not self.is_polling:
            self.is_polling = True
            self.worker.later(self.simulation.random.randint(50, 900), self._poll)

    def _poll(self) -> None:
        self.is_polling = False
        if self.is_paused or self.is_finished:
            return
        rng = self.simulation.random
        partition = self.simulation.topic[self.partition]
        if self.position < partition.low:
            if self.writer:
                self.feed(WriteFailed(self.writer.start.instant, "offset expired"))
            return
        records, next_offset = partition.read(self.position, rng.randint(1, 8))
        if next_offset > self.position:
            self.position = next_offset
            first = records[0] if records else None
            self.pipeline.append((Polled(first, next_offset, len(records), self.seeks), records))
            self.worker.later(rng.choice((0, 20, 400)), self._decoded)
        self._poll_later()

    def _decoded(self) -> None:
        polled, batch = self.pipeline.popleft()
        if self.is_finished:
            return
        rng = self.simulation.random
        if self.writer and self.simulation.has_faults and rng.random() < 0.02:
            self.feed(self._undecoded(self.writer))  # And the consumer has left it behind.
            return
        self.feed(polled, batch)

    def _undecoded(self, writer: Writer) -> WriteFailed | NeedsSchema:
        instant = writer.start.instant
        wants_column = int(writer.start.schema) < 3 and "x" not in writer.start.refused_fields
        if wants_column and self.simulation.random.random() < 0.5:
            return NeedsSchema(instant, FIELD)
        return WriteFailed(instant, "a batch that nobody can decode")

    # Writing ----------------------------------------------------------------------------------

    def _write(self, rows: list[int]) -> None:
        writer, rng = self.writer, self.simulation.random
        if writer is None:
            raise Violation(f"KS6: partition {self.partition} writes without a writer")
        writer.rows += rows
        writer.records += len(rows)
        instant = writer.start.instant
        if rng.random() < 0.3:
            self._flush(writer)
        if not self.simulation.has_faults:
            return
        if rng.random() < 0.02:
            self.worker.later(rng.randint(0, 300), self.feed, WriteFailed(instant, "disk full"))

    def _flush(self, writer: Writer) -> None:
        if writer.rows:
            ledger = self.simulation.ledger
            writer.files.append(ledger.write(writer.start.instant, self.partition, writer.rows))
            writer.rows = []

    def _close(self) -> None:
        writer, simulation = self.writer, self.simulation
        if writer is None:
            raise Violation(f"KS6: partition {self.partition} closes no writer")
        rng = simulation.random
        if simulation.has_faults and rng.random() < 0.02:
            return  # It hangs for ever.
        is_slow = simulation.has_faults and rng.random() < 0.05
        delay_ms = rng.randint(3_000, 25_000) if is_slow else rng.randint(1, 300)
        self.worker.later(delay_ms, self._closed, writer)

    def _closed(self, writer: Writer) -> None:
        """Also when the writer was dropped meanwhile: its thread writes on."""
        self._flush(writer)
        instant, rng = writer.start.instant, self.simulation.random
        if self.simulation.has_faults and rng.random() < 0.02:
            self.feed(WriteFailed(instant, "fsync"))
            return
        self.feed(Closed(instant, writer.records, tuple(map(str, writer.files))))
        if self.writer is writer and self.state.name is ParticipantName.PREPARED:
            self.writer = None

    def _drop(self) -> None:
        if self.writer and self.simulation.random.random() < 0.5:
            self.simulation.ledger.delete(self.writer.files)
        self.writer = None

    def _judge(self, before: ParticipantState, message: Message) -> None:
        """KS3 and KS6: what is not about our transaction moves neither it nor our offset."""
        after, joined = self.state, before.joined
        if message.epoch < before.newest[0] and after.joined is not joined:
            raise Violation(f"KS3: {before.participant_id} listens to epoch {message.epoch}")
        is_other = joined is None or (joined.epoch, joined.instant) != (
            message.epoch,
            message.instant,
        )
        if after.name is ParticipantName.STOPPED and (
            not isinstance(message, AckCommit) or message.ends_run != self.worker.run.run_id
        ):
            raise Violation(f"KS6: {before.participant_id} stops by {message}")
        if isinstance(message, EndCommit | AckCommit) and is_other:
            is_moved = (after.name, after.joined, after.offset) != (
                before.name,
                before.joined,
                before.offset,
            )
            if is_moved and after.name is not ParticipantName.STOPPED:
                raise Violation(f"KS6: {before.participant_id} in {before.name} obeys {message}")
