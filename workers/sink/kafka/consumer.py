"""Consumer of one partition of a topic, in whole batches from a given offset.

The only work per record is to read librdkafka's fields. A paused consumer has no assignment: the
partition is unassigned, and assigned again at the next offset. This takes a tenth of the time of
the client's own pause and resume, and drops fetched records.

Offsets without a record (markers and records of transactions, compacted records) show in the next
offsets, or in the offset of the partition's end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from workers.errors import LakehouseError, NotFound, OffsetExpired
from workers.sink.batch import RawBatch
from workers.sink.kafka.client_config import ClientSettings
from workers.sink.kafka.failures import build_failure, wrap_errors

_EXPIRED = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
# The client retries after these.
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
    """Consumer of one partition, for one thread. It starts paused, and needs a seek first.

    A poll that raises pauses it too. Then it needs another seek.
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
        with wrap_errors("no consumer", topic=topic):
            self._consumer = Consumer({**settings, "on_commit": self._note_hint})

    @property
    def next_offset(self) -> int:
        """Next offset. No record below it will be returned."""
        return self._next

    @property
    def seeks(self) -> int:
        """Number of calls of `seek`. Batches contain it, to detect those from before a seek."""
        return self._seeks

    @property
    def hints_refused(self) -> int:
        """Number of failed commits of the group's offset. Nothing depends on them."""
        return self._hints_refused

    def seek(self, offset: int) -> None:
        """Move to the offset. The seek is counted even if the offset does not change."""
        is_elsewhere = offset != self._next
        self._next = offset
        self._seeks += 1
        if not self._is_paused and is_elsewhere:
            self._assign()

    def pause(self) -> None:
        """Unassign the partition and drop fetched records. Polls return None until `resume`.

        Raises KafkaFailed.
        """
        if not self._is_paused:
            self._is_paused = True
            with wrap_errors("partition not given up", topic=self._topic):
                self._consumer.unassign()

    def resume(self) -> None:
        """Assign the partition again at the next offset. If the topic no longer has that offset,
        the next poll raises.
        """
        assert self._seeks, "a consumer that was sent nowhere has nothing to resume"
        if self._is_paused:
            self._assign()
            self._is_paused = False

    def poll(self, records_max: int, timeout_s: float) -> RawBatch | None:
        """Return up to `records_max` records, as soon as there are as many or the time is over.

        A batch without records means that offsets below `next_offset` have none. None if there is
        nothing, at once if paused. An unreachable broker counts as nothing to read.

        Raises OffsetExpired if the topic does not have the offset, NotFound if there is no such
        partition, KafkaFailed for errors from which the client does not recover.
        """
        try:
            return self._poll(records_max, 0.0 if self._is_paused else timeout_s)
        except LakehouseError:
            self.pause()
            raise

    def hint(self, offset: int) -> None:
        """Commit the offset of the group asynchronously, for tools that show its lag."""
        with wrap_errors("offset not committed", topic=self._topic):
            self._consumer.commit(offsets=[self._at(offset)], asynchronous=True)

    def close(self) -> None:
        """Close the connection. The consumer must not be used again."""
        self._consumer.close()

    def _poll(self, records_max: int, timeout_s: float) -> RawBatch | None:
        with wrap_errors("nothing polled", topic=self._topic, partition=self._partition):
            messages = self._consumer.consume(records_max, timeout_s)
        if self._is_paused or not messages:
            return None
        records = [message for message in messages if message.error() is None]
        offsets = np.array([record.offset() for record in records], np.int64)
        assert not len(offsets) or offsets[0] >= self._next, (offsets[0], self._next)
        reached = int(offsets[-1]) + 1 if len(offsets) else self._next
        if len(records) < len(messages):
            reached = max(reached, self._find_end(messages))
        if reached == self._next:
            return None
        self._next = reached
        return RawBatch(
            values=[record.value() for record in records],
            keys=[record.key() for record in records] if self._wants_keys else (),
            offsets=offsets,
            timestamps_ms=np.array([record.timestamp()[1] for record in records], np.int64),
            next_offset=reached,
            seeks=self._seeks,
            records=records,
        )

    def _find_end(self, messages: Sequence[Message]) -> int:
        """Return the partition's end offset, or 0 if it was not reached. Raises other errors."""
        reached = 0
        for message in messages:
            if (error := message.error()) is None or error.code() in _PASSING:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._to_error(error)
            reached = max(reached, message.offset() or 0)
        return reached

    def _to_error(self, error: KafkaError) -> LakehouseError:
        where = {"topic": self._topic, "partition": self._partition, "offset": self._next}
        if error.code() in _EXPIRED:
            return OffsetExpired("the topic does not have this offset", **where)
        if error.code() in _MISSING:
            return NotFound("the broker has no such partition", **where)
        return build_failure("the partition cannot be read", error, **where)

    def _assign(self) -> None:
        with wrap_errors("partition not taken", topic=self._topic, partition=self._partition):
            self._consumer.assign([self._at(self._next)])

    def _at(self, offset: int) -> TopicPartition:
        return TopicPartition(self._topic, self._partition, offset)

    def _note_hint(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        self._hints_refused += error is not None
