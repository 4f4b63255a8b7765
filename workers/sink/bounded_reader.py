"""Execute a bounded read: resolve its offsets, and decode its records into a file for Spark.

Records are decoded as in the sink. Nothing is committed to the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workers.clock import Clock
from workers.errors import InvalidInput, KafkaFailed, OffsetExpired
from workers.sink.batch import RawBatch
from workers.sink.bounded_read import BoundedRead, OffsetRanges
from workers.sink.decoding.decoder import Decode, build_decoder
from workers.sink.kafka.client_config import connection_settings, consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.topics import TopicFacts, Topics

POLLED_MAX = 20_000
IDLE_S_MAX = 60.0
_POLL_S = 0.5


def resolve_offsets(read: BoundedRead, environment: Mapping[str, str]) -> OffsetRanges:
    """Return the offsets to read: those of an earlier attempt, else from the read's start to the
    topic's current end.

    Raises InvalidInput for an unknown partition and for a topic that was created again,
    OffsetExpired for offsets that the topic no longer has, NotFound, KafkaFailed.
    """
    topics = Topics(connection_settings(read.config, environment))
    topic = read.config.topic
    facts = topics.facts(topic)
    if read.resolved is not None:
        if read.resolved.topic_id != facts.topic_id:
            raise InvalidInput(
                "the topic was deleted and created again after the read was planned", topic=topic
            )
        _check_ranges(topic, facts, read.resolved)
        return read.resolved
    starts = _find_starts(read, topics, facts)
    spans = {
        partition: (starts.get(partition, low), high)
        for partition, (low, high) in facts.watermarks.items()
    }
    ranges = OffsetRanges(facts.topic_id, {at: (s, max(s, e)) for at, (s, e) in spans.items()})
    _check_ranges(topic, facts, ranges)
    return ranges


@dataclass(frozen=True, slots=True)
class TopicReader:
    """Reader of resolved offsets, one partition after the other."""

    read: BoundedRead
    environment: Mapping[str, str]
    clock: Clock

    def spool(
        self, ranges: OffsetRanges, schema: pa.Schema, required: Collection[str], path: Path
    ) -> int:
        """Write every record of the ranges to a Parquet file at `path`, and return the number of
        rows. They have `schema`, and their `required` columns are not null. Memory is bounded by
        one batch.

        Raises InvalidInput, with the record's offset, for a record without a value or one that
        does not fit the table. Raises OffsetExpired, KafkaFailed.
        """
        decode = build_decoder(self.read.config, schema, required=required)
        rows = 0
        with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
            for partition, (start, end) in sorted(ranges.of_partition.items()):
                for batch in self._read_batches(partition, start, end):
                    decoded = self._decode_batch(decode, batch, partition)
                    writer.write_table(decoded.select(schema.names).cast(schema))
                    rows += decoded.num_rows
        return rows

    def _read_batches(self, partition: int, start: int, end: int) -> Iterator[RawBatch]:
        if start >= end:
            return
        settings = consumer_settings(self.read.config, self.environment)
        consumer = PartitionConsumer(settings, self.read.config.topic, partition, wants_keys=False)
        try:
            consumer.seek(start)
            consumer.resume()
            received_at_s = self.clock.monotonic_s()
            while consumer.next_offset < end:
                batch = consumer.poll(POLLED_MAX, _POLL_S)
                if batch is not None:
                    received_at_s = self.clock.monotonic_s()
                    yield _cut_batch(batch, end)
                elif self.clock.monotonic_s() - received_at_s > IDLE_S_MAX:
                    raise KafkaFailed(
                        "the broker sends nothing more of a partition that has not ended",
                        topic=self.read.config.topic,
                        partition=partition,
                        offset=consumer.next_offset,
                        end=end,
                    )
        finally:
            consumer.close()

    def _decode_batch(self, decode: Decode, batch: RawBatch, partition: int) -> pa.Table:
        decoded = decode(batch)
        topic = self.read.config.topic
        if decoded.bad:
            bad = decoded.bad[0]
            raise InvalidInput(
                "a record does not fit the table",
                topic=topic,
                partition=partition,
                offset=bad.offset,
                cause=bad.cause,
            )
        if decoded.tombstones:
            raise InvalidInput(
                "a record has no value; a sink in keyed mode takes such deletes",
                topic=topic,
                partition=partition,
                offset=decoded.tombstones[0].offset,
            )
        return decoded.rows


def _find_starts(read: BoundedRead, topics: Topics, facts: TopicFacts) -> Mapping[int, int]:
    if read.start_at_ms is not None:
        return topics.find_offsets_at(read.config.topic, read.start_at_ms, facts)
    if isinstance(read.config.start_offsets, str):
        return {}
    if unknown := sorted(set(read.config.start_offsets) - set(facts.watermarks)):
        raise InvalidInput(
            "the topic has no such partitions", topic=read.config.topic, partitions=unknown
        )
    return read.config.start_offsets


def _check_ranges(topic: str, facts: TopicFacts, ranges: OffsetRanges) -> None:
    for partition, (start, end) in ranges.of_partition.items():
        low, high = facts.watermarks.get(partition, (0, 0))
        if start < end and start < low:
            raise OffsetExpired(
                "the topic no longer has this offset",
                topic=topic,
                partition=partition,
                offset=start,
                first=low,
            )
        if end > high and start < end:
            raise InvalidInput(
                "the topic ends before these offsets", topic=topic, partition=partition, end=high
            )


def _cut_batch(batch: RawBatch, end: int) -> RawBatch:
    """Return the records below the end. Later records belong to another read."""
    if batch.next_offset <= end:
        return batch
    count = int(np.searchsorted(batch.offsets, end))
    return replace(
        batch,
        values=batch.values[:count],
        offsets=batch.offsets[:count],
        timestamps_ms=batch.timestamps_ms[:count],
        records=batch.records[:count],
    )
