"""Reads one partition of a topic from where it is told, in whole batches.

Nothing is done per record but to read the fields that librdkafka holds. A consumer holds nothing
while it is paused: the partition is given up, and taken again at the next offset, which here takes
a tenth of the time that the client's own pause and resume do, and forgets what was fetched ahead.

What the broker leaves out (markers and records of transactions, compacted records) is known by the
offsets of what follows, or by the offset at which the partition's end was reached.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from workers.errors import LakehouseError, NotFound, OffsetExpired
from workers.sink.batch import RawBatch
from workers.sink.kafka.client_config import ClientSettings
from workers.sink.kafka.failures import failed, kafka_errors

_EXPIRED = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
# The client goes on trying by itself after these.
_PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
)


class PartitionConsumer:
    """Paused, and sent nowhere, until told otherwise; one thread uses it.

    A poll that raises leaves it paused as well: it is told anew where to go on.
    """

    def __init__(
        self, settings: ClientSettings, topic: str, partition: int, *, wants_keys: bool
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._wants_keys = wants_keys
        self._next = 0
        self._seeks = 0
        self._is_paused = True
        self._hints_refused = 0
        with kafka_errors("no consumer", topic=topic):
            self._consumer = Consumer({**settings, "on_commit": self._note_hint})

    @property
    def next_offset(self) -> int:
        """No record below it will come."""
        return self._next

    @property
    def seeks(self) -> int:
        """How often `seek` was called; batches carry it, so that those from before a seek can be
        told.
        """
        return self._seeks

    @property
    def hints_refused(self) -> int:
        """How many commits of the group's offset failed; nothing depends on them."""
        return self._hints_refused

    def seek(self, offset: int) -> None:
        """What is polled from now on begins here; counted even when it is where we are."""
        is_elsewhere = offset != self._next
        self._next = offset
        self._seeks += 1
        if not self._is_paused and is_elsewhere:
            self._take()

    def pause(self) -> None:
        """Give the partition up: what was fetched is dropped, and polls return None until `resume`.

        Raises KafkaFailed.
        """
        if not self._is_paused:
            self._is_paused = True
            with kafka_errors("partition not given up", topic=self._topic):
                self._consumer.unassign()

    def resume(self) -> None:
        """Take the partition again, from where it was sent last. Where that offset is gone the next
        poll says so.
        """
        assert self._seeks, "a consumer that was sent nowhere has nothing to resume"
        if self._is_paused:
            self._take()
            self._is_paused = False

    def poll(self, records_max: int, timeout_s: float) -> RawBatch | None:
        """Up to so many records, as soon as there are as many or the time is over.

        A batch without records says that the broker left some out before `next_offset`. None when
        there is nothing, at once when paused. Raises OffsetExpired when the topic does not have
        the offset, NotFound when there is no such partition, KafkaFailed for what the client
        cannot get over by itself. A broker that is away is nothing to read.
        """
        try:
            return self._polled(records_max, 0.0 if self._is_paused else timeout_s)
        except LakehouseError:
            self.pause()
            raise

    def hint(self, offset: int) -> None:
        """Let tools that show the group's lag see this offset; nobody waits for it."""
        with kafka_errors("offset not committed", topic=self._topic):
            self._consumer.commit(offsets=[self._at(offset)], asynchronous=True)

    def close(self) -> None:
        """Leave the broker. The consumer is not used again."""
        self._consumer.close()

    def _polled(self, records_max: int, timeout_s: float) -> RawBatch | None:
        with kafka_errors("nothing polled", topic=self._topic, partition=self._partition):
            messages = self._consumer.consume(records_max, timeout_s)
        if self._is_paused or not messages:
            return None
        records = [one for one in messages if one.error() is None]
        offsets = np.array([one.offset() for one in records], np.int64)
        assert not len(offsets) or offsets[0] >= self._next, (offsets[0], self._next)
        reached = int(offsets[-1]) + 1 if len(offsets) else self._next
        if len(records) < len(messages):
            reached = max(reached, self._end_reached(messages))
        if reached == self._next:
            return None
        self._next = reached
        return RawBatch(
            values=[one.value() for one in records],
            keys=[one.key() for one in records] if self._wants_keys else (),
            offsets=offsets,
            timestamps_ms=np.array([one.timestamp()[1] for one in records], np.int64),
            next_offset=reached,
            seeks=self._seeks,
            records=records,
        )

    def _end_reached(self, messages: Sequence[Message]) -> int:
        """The offset of the partition's end when it was met on the way; raises for the rest."""
        reached = 0
        for message in messages:
            if (error := message.error()) is None or error.code() in _PASSING:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._error(error)
            reached = max(reached, message.offset() or 0)
        return reached

    def _error(self, error: KafkaError) -> LakehouseError:
        where = {"topic": self._topic, "partition": self._partition, "offset": self._next}
        if error.code() in _EXPIRED:
            return OffsetExpired("the topic does not have this offset (any more)", **where)
        if error.code() in _MISSING:
            return NotFound("the broker has no such partition", **where)
        return failed("the partition cannot be read", error, **where)

    def _take(self) -> None:
        with kafka_errors("partition not taken", topic=self._topic, partition=self._partition):
            self._consumer.assign([self._at(self._next)])

    def _at(self, offset: int) -> TopicPartition:
        return TopicPartition(self._topic, self._partition, offset)

    def _note_hint(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        self._hints_refused += error is not None
