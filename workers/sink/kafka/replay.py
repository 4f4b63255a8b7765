"""Replay of dead letters: send them to their partition again, with the same key, value and headers.

The records get new offsets. The dead letters are not deleted. Each dead letter is sent once, even
if several users request it or a process crashes:

- the dead letters are claimed next to the table before they are sent (`workers.sink.replays`);
- they are sent in one transaction, so the topic has all records of a claim or none;
- one producer at a time may send for a sink. The next one fences its predecessor, whose open
  transaction is decided by then;
- each record has the claim's token in a header. So the next replay finds the outcome of a claim
  without an end.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from workers.errors import KafkaFailed, LakehouseError, NotFound, SinkFenced
from workers.sink.batch import Headers, RawBatch
from workers.sink.config import SinkConfig
from workers.sink.dead_letter_selection import SelectedDeadLetters, to_dead_letter_id
from workers.sink.dead_letters import DECODED, HEADERS, KEY, VALUE
from workers.sink.kafka.client_config import connection_settings, consumer_settings, replay_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.failures import build_failure, get_error, wrap_errors
from workers.sink.kafka.topics import Topics
from workers.sink.replays import (
    DeadLetterId,
    Replay,
    ReplayedOffsets,
    claim_letters,
    find_sent_letters,
    list_ends,
    read_replays,
    store_end,
)
from workers.sink.tables import TIMESTAMP
from workers.table.table import Table

_log = logging.getLogger(__name__)
TOKEN_HEADER: Final = "sluice-replay"  # noqa: S105  (the name of a header)
TIME_HEADER: Final = "sluice-time"
"""When the record was first sent, in milliseconds."""
_TIMEOUT_S: Final = 60.0
_POLLS_MAX: Final = 50
_POLL_S: Final = 0.5
_SCANNED_AT_ONCE: Final = 5_000
_FENCED: Final = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)

Choose = Callable[[Collection[DeadLetterId]], SelectedDeadLetters]
"""Function from the dead letters that were sent to those that are to be sent."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Number of selected dead letters that were sent, and of those that were not, by cause."""

    sent: int
    already: int
    """Selected dead letters that had been sent before."""
    lost: int = 0
    """Dead letters whose record the topic has lost; only the decoded row is left."""


@dataclass(frozen=True, slots=True)
class _Record:
    letter: DeadLetterId
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


def replay_letters(
    table: Table,
    config: SinkConfig,
    environment: Mapping[str, str],
    choose: Choose,
    *,
    token: str,
    by: str,
) -> ReplayResult:
    """Send the dead letters that `choose` returns. `token` is unique to the replay and its retries.

    Raises KafkaFailed, MalformedTable, SinkFenced if another replay began since. Then nothing was
    sent, or the next replay finds out that it was.
    """
    return _ReplayRun(table, config, environment, token, by).run(choose)


class _ReplayRun:
    def __init__(
        self,
        table: Table,
        config: SinkConfig,
        environment: Mapping[str, str],
        token: str,
        by: str,
    ) -> None:
        self._table, self._config, self._environment = table, config, environment
        self._token, self._by = token, by
        self._topics = Topics(connection_settings(config, environment), clock=table.ports.clock)

    def run(self, choose: Choose) -> ReplayResult:
        storage, sink_id = self._table.storage, self._config.sink_id
        producer = self._create_producer()
        replays = [self._resolve_claim(replay) for replay in read_replays(storage, sink_id)]
        chosen = choose(find_sent_letters(replays).keys())
        records, lost = self._collect_records(chosen)
        if not records:
            return ReplayResult(0, chosen.already, lost)
        topic = self._topics.facts(self._config.topic)
        replay = Replay(
            number=max((earlier.number for earlier in replays), default=0) + 1,
            token=self._token,
            by=self._by,
            at_ms=self._table.ports.clock.now_ms(),
            letters=tuple(record.letter for record in records),
            ends=list_ends(topic.watermarks),
        )
        if not claim_letters(storage, sink_id, replay):
            raise _build_fenced_error(sink_id)
        offsets = self._send(producer, replay, records)
        landed = ReplayedOffsets(topic.topic_id, topic.cluster_id, offsets)
        store_end(storage, sink_id, replay, is_sent=True, until=self._read_ends(), landed=landed)
        return ReplayResult(len(records), chosen.already, lost)

    def _read_ends(self) -> tuple[tuple[int, int], ...]:
        """Return the end offsets after sending, or none if the broker does not answer."""
        try:
            return list_ends(self._topics.facts(self._config.topic).watermarks)
        except (KafkaFailed, NotFound) as error:
            _log.warning("how far the topic reaches is not known: %s", error)
            return ()

    def _create_producer(self) -> Producer:
        """Create the transactional producer, which fences all earlier ones."""
        settings = replay_settings(
            self._config, self._environment, location=self._table.storage.location
        )
        with wrap_errors("no producer of transactions", topic=self._config.topic):
            producer = Producer(dict(settings))
            producer.init_transactions(_TIMEOUT_S)
        return producer

    def _resolve_claim(self, replay: Replay) -> Replay:
        if replay.is_sent is not None:
            return replay
        is_sent = any(
            self._has_token(replay.token, partition, ended)
            for partition, ended in replay.ends
            if any(letter.partition == partition for letter in replay.letters)
        )
        return store_end(self._table.storage, self._config.sink_id, replay, is_sent=is_sent)

    def _has_token(self, token: str, partition: int, offset: int) -> bool:
        """Check whether the partition has a record of that claim at the offset or after it."""
        watermarks = self._topics.facts(self._config.topic).watermarks
        first, end = watermarks.get(partition, (0, 0))  # It may be gone with its topic.
        consumer = self._create_consumer(partition)
        try:
            consumer.seek(max(first, offset))
            consumer.resume()
            while consumer.next_offset < end:
                batch = self._poll(consumer, _SCANNED_AT_ONCE)
                mark = (TOKEN_HEADER, token.encode())
                if any(mark in (record.headers() or ()) for record in batch.records):
                    return True
        finally:
            consumer.close()
        return False

    def _collect_records(self, chosen: SelectedDeadLetters) -> tuple[list[_Record], int]:
        """Return the records to send, and how many cannot be sent."""
        rows = chosen.letters.to_pylist()
        topic = self._topics.facts(self._config.topic)
        decoded_letters: dict[int, dict[int, DeadLetterId]] = defaultdict(dict)
        for row in rows:
            letter = to_dead_letter_id(row)
            # A topic that was created again has other records at these offsets.
            if row[DECODED] and letter.topic_id in ("", topic.topic_id):
                decoded_letters[letter.partition][letter.offset] = letter
        originals = {
            record.letter: record
            for partition, letters in decoded_letters.items()
            for record in self._read_originals(letters, topic.watermarks.get(partition, (0, 0)))
        }
        candidates = [
            originals.get(to_dead_letter_id(row)) if row[DECODED] else _letter_to_record(row)
            for row in rows
        ]
        records = [record for record in candidates if record is not None]
        return records, len(candidates) - len(records)

    def _read_originals(
        self, letters: Mapping[int, DeadLetterId], ends: tuple[int, int]
    ) -> Iterator[_Record]:
        """Yield the original records of dead letters of one partition that contain only decoded
        rows, as far as the topic has them.
        """
        first, end = ends
        left = deque(offset for offset in sorted(letters) if first <= offset < end)
        offsets = frozenset(left)
        if not left:
            return
        consumer = self._create_consumer(letters[left[0]].partition)
        try:
            consumer.seek(left[0])
            consumer.resume()
            while left:
                if left[0] - consumer.next_offset > _SCANNED_AT_ONCE:
                    consumer.seek(left[0])
                batch = self._poll(consumer, _SCANNED_AT_ONCE)
                for at, offset in enumerate(batch.offsets.tolist()):
                    if offset in offsets:
                        yield _to_record(letters[offset], batch, at)
                while left and left[0] < batch.next_offset:
                    left.popleft()
        finally:
            consumer.close()

    def _create_consumer(self, partition: int) -> PartitionConsumer:
        settings = consumer_settings(self._config, self._environment)
        return PartitionConsumer(settings, self._config.topic, partition, wants_keys=False)

    def _poll(self, consumer: PartitionConsumer, records_max: int) -> RawBatch:
        for _ in range(_POLLS_MAX):
            batch = consumer.poll(records_max, _POLL_S)
            if batch is not None:
                return batch
        raise KafkaFailed("the topic is not read in time", topic=self._config.topic)

    def _send(
        self, producer: Producer, replay: Replay, records: list[_Record]
    ) -> tuple[tuple[int, int, int], ...]:
        """Send the records. Return partition, offset of the dead letter and new offset of each."""
        errors: list[KafkaError] = []
        offsets: dict[DeadLetterId, int] = {}

        def note_delivery(letter: DeadLetterId, error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[letter] = message.offset()

        try:
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record, partial(note_delivery, record.letter))
            waiting = producer.flush(_TIMEOUT_S)
            if not errors and not waiting:
                producer.commit_transaction(_TIMEOUT_S)
                return tuple(
                    (letter.partition, letter.offset, offset) for letter, offset in offsets.items()
                )
        except (KafkaException, SystemError) as raised:
            # A fatal error that the client raises before it calls back comes as the cause of this.
            cause = raised.__cause__ if isinstance(raised, SystemError) else raised
            if not isinstance(cause, KafkaException):
                raise
            error = get_error(cause)
            if error.code() in _FENCED:
                raise _build_fenced_error(self._config.sink_id) from raised
            if not error.txn_requires_abort():
                raise build_failure(
                    "it is unknown whether the dead letters were sent; the next replay finds out",
                    error,
                    topic=self._config.topic,
                ) from raised
            errors.append(error)
        raise self._abort_send(producer, replay, errors)

    def _produce(
        self, producer: Producer, record: _Record, note_delivery: Callable[..., None]
    ) -> None:
        headers = self._headers(record)
        while True:
            try:
                producer.produce(
                    record.letter.topic,
                    record.value,
                    record.key,
                    record.letter.partition,
                    on_delivery=note_delivery,
                    headers=headers,
                )
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def _headers(self, record: _Record) -> list[tuple[str, str | bytes | None]]:
        """Return the record's headers, its original time and the claim's token.

        The original time is not the time of the new record, because the broker at once deletes
        records that are older than the topic's retention.
        """
        own = [header for header in record.headers if header[0] != TOKEN_HEADER]
        if record.timestamp_ms > 0 and all(name != TIME_HEADER for name, _ in own):
            own.append((TIME_HEADER, str(record.timestamp_ms).encode()))
        return [*own, (TOKEN_HEADER, self._token.encode())]

    def _abort_send(
        self, producer: Producer, replay: Replay, errors: list[KafkaError]
    ) -> LakehouseError:
        """Abort the transaction, and return the error to raise. Raises KafkaFailed on failure."""
        topic = self._config.topic
        if errors and errors[0].code() in _FENCED:
            return _build_fenced_error(self._config.sink_id)
        with wrap_errors("dead letters not sent, and the abort failed; retry", topic=topic):
            producer.abort_transaction(_TIMEOUT_S)
        store_end(self._table.storage, self._config.sink_id, replay, is_sent=False)
        if errors:
            return build_failure("dead letters not sent", errors[0], topic=topic)
        return KafkaFailed("dead letters not sent in time", topic=topic)


def _to_record(letter: DeadLetterId, batch: RawBatch, at: int) -> _Record:
    record, at_ms = batch.records[at], int(batch.timestamps_ms[at])
    return _Record(letter, record.key(), batch.values[at], tuple(record.headers() or ()), at_ms)


def _letter_to_record(row: Mapping[str, Any]) -> _Record:
    moment = row[TIMESTAMP]
    headers = tuple((header["name"], header["value"]) for header in row[HEADERS] or ())
    at_ms = 0 if moment is None else round(moment.timestamp() * 1000)
    return _Record(to_dead_letter_id(dict(row)), row[KEY], row[VALUE], headers, at_ms)


def _build_fenced_error(sink_id: str) -> SinkFenced:
    return SinkFenced("another replay of this sink began; retry", sink=sink_id)
