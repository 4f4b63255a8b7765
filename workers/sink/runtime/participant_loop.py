"""Runtime of a participant: one thread that reads its partition and writes its files.

An error of the partition's records or files ends the transaction, not the participant: the
coordinator receives it at once and begins another transaction. Any other error ends the task, and
Spark starts it again as a new participant.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.clock import Clock
from workers.errors import LakehouseError
from workers.schema.table_schema import TableSchema
from workers.sink.batch import DecodedBatch, RawBatch, Source
from workers.sink.config import SinkConfig
from workers.sink.context import SinkContexts, list_required_columns, payload_schema
from workers.sink.decoding.decoder import Decode, build_decoder
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.messages import MessageReceived, ParticipantName, Send, StartCommit, Tick
from workers.sink.participant import ParticipantState, step
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
from workers.sink.runtime.mailbox import Inbox, Outbox
from workers.sink.tables import TIMESTAMP
from workers.sink.writer import SinkWriter
from workers.storage.base import Storage

_IDLE_S = 0.2
_POLL_S = 0.1
_RECORDS_MAX = 20_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Values that the participants of a worker share."""

    config: SinkConfig
    storage: Storage
    contexts: SinkContexts
    outbox: Outbox
    clock: Clock
    consume: Callable[[int], PartitionConsumer]
    """Function that creates the consumer of a partition."""


class ParticipantLoop:
    """One participant. A thread calls `run` once. Other threads put messages into `inbox`, call
    `leave`, and read `finished`. The constructor raises KafkaFailed.
    """

    def __init__(self, context: WorkerContext, state: ParticipantState) -> None:
        self.inbox = Inbox()
        self._context = context
        self._state = state
        self._consumer = context.consume(state.partition)
        self._decode: Decode | None = None
        self._writer: SinkWriter | None = None
        self._batch: DecodedBatch | None = None
        self._leaving = threading.Event()
        self._leaves_because = ""
        self.finished = False

    @property
    def partition(self) -> int:
        """Partition that it reads."""
        return self._state.partition

    def leave(self, reason: str) -> None:
        """Request the end, from another thread."""
        self._leaves_because = reason
        self._leaving.set()

    def run(self) -> None:
        """Run until the coordinator has stopped or `leave` is called."""
        try:
            self._apply(Assigned(self._now_ms()))
            while not self.finished:
                self._run_once()
        except BaseException as error:
            # The coordinator then need not wait for a timeout.
            self._apply(LeaveRequested(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._consumer.close()

    def _run_once(self) -> None:
        is_open = self._state.name is ParticipantName.OPEN
        for message in self.inbox.take(0 if is_open else _IDLE_S):
            self._apply(MessageReceived(message, self._now_ms()))
        if self._leaving.is_set():
            self._apply(LeaveRequested(self._leaves_because))
        self._apply(Tick(self._now_ms()))
        if self._state.name is ParticipantName.OPEN:
            self._poll()

    def _poll(self) -> None:
        """Read and decode a batch, and pass it to the state machine."""
        assert self._state.joined is not None, self._state
        instant = self._state.joined.instant
        try:
            raw = self._consumer.poll(_RECORDS_MAX, _POLL_S)
            if raw is None:
                return
            self._batch = self._decode_records(raw)
        except LakehouseError as error:
            self._apply(WriteFailed(instant, f"{error.code}: {error}"))
            return
        if needed := self._find_needed_fields():
            schema = TableSchema.from_arrow(pa.schema(needed), table_name="new_fields")
            self._apply(NeedsSchema(instant, schema.avro_json))
            return
        self._apply(
            Polled(
                first_offset=int(raw.offsets[0]) if len(raw) else None,
                next_offset=raw.next_offset,
                records=len(raw),
                seeks=raw.seeks,
            )
        )
        self._batch = None

    def _find_needed_fields(self) -> list[pa.Field[Any]]:
        """Return the new fields of the batch, without those that the table rejects."""
        assert self._state.joined is not None, self._state
        refused = self._state.joined.refused_fields
        new_fields = self._batch.new_fields if self._batch is not None else ()
        return [field for field in new_fields if field.name not in refused]

    def _decode_records(self, raw: RawBatch) -> DecodedBatch | None:
        if not len(raw):
            return None
        assert self._decode is not None, self._state
        return self._decode(raw)

    # Effects ----------------------------------------------------------------------------------

    def _apply(self, event: ParticipantEvent) -> None:
        """Step with the event and perform the effects. Their results are further events."""
        waiting: deque[ParticipantEvent] = deque([event])
        while waiting:
            self._state, effects = step(self._state, waiting.popleft())
            answers = [self._perform(effect) for effect in effects]
            waiting.extend(answer for answer in answers if answer is not None)

    def _perform(self, effect: ParticipantEffect) -> ParticipantEvent | None:
        match effect:
            case Send(message):
                self._context.outbox.put(message)
            case Pause():
                self._consumer.pause()
            case Resume():
                self._consumer.resume()
            case Seek(offset):
                self._consumer.seek(offset)
            case OpenWriter(start):
                return self._run_guarded(start.instant, lambda: self._open(start))
            case Write(from_offset):
                assert self._state.joined is not None, self._state
                return self._run_guarded(
                    self._state.joined.instant, lambda: self._write(from_offset)
                )
            case CloseWriter(instant):
                return self._run_guarded(instant, lambda: self._close(instant))
            case DropWriter():
                self._drop()
            case StoreOffset(offset):
                self._consumer.hint(offset)
            case Finished(reason):
                _log.info("participant %s ends: %s", self._state.participant_id, reason)
                self.finished = True
        return None

    def _run_guarded(
        self, instant: str, act: Callable[[], ParticipantEvent | None]
    ) -> ParticipantEvent | None:
        try:
            return act()
        except LakehouseError as error:
            _log.warning("transaction %s, partition %s: %s", instant, self.partition, error)
            return WriteFailed(instant, f"{error.code}: {error}")

    def _open(self, start: StartCommit) -> None:
        config = self._context.config
        context = self._context.contexts.get_context(start.instant, start.schema, start.read_at)
        schema = payload_schema(config, context.schema.arrow)
        required = list_required_columns(context.config)
        keeps_times = TIMESTAMP in context.schema.field_names
        self._decode = build_decoder(config, schema, required=required, keeps_times=keeps_times)
        source = Source(
            config.topic,
            self.partition,
            self._state.participant_id,
            topic_id=start.topic_id,
            cluster_id=start.cluster_id,
        )
        self._writer = SinkWriter(context, config, source, self._context.storage)

    def _write(self, from_offset: int) -> None:
        assert self._writer is not None, self._state
        assert self._batch is not None, self._state
        self._writer.add(self._batch, from_offset)

    def _close(self, instant: str) -> ParticipantEvent:
        assert self._writer is not None, self._state
        written = self._writer.close()
        self._writer = None
        return Closed(
            instant=instant,
            records=written.records,
            statuses=tuple(status.to_json() for status in written.statuses),
            letters=tuple(file.to_json() for file in written.letters),
            bad_records=written.bad_records,
            left_out=written.left_out,
            max_timestamp_ms=written.max_timestamp_ms or 0,
            tombstones=written.tombstones.total,
            tombstones_unmet=written.tombstones.unmet,
            tombstones_not_looked_for=written.tombstones.not_looked_for,
        )

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.drop()
        self._writer = None

    def _now_ms(self) -> int:
        return self._context.clock.now_ms()
