"""What a participant reads of a real partition: gaps, an expired head, pauses and seeks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from tests.support.kafka import client, eventually, fresh_topic, sink_of
from workers.errors import OffsetExpired
from workers.sink.batch import RawBatch
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import connection_settings, consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.topics import Topics, produce

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Opens = Callable[..., PartitionConsumer]


@pytest.fixture
def opens(kafka: Broker, topic: str) -> Iterator[Opens]:
    opened = []

    def consumer(partition: int = 0, *, wants_keys: bool = False) -> PartitionConsumer:
        settings = consumer_settings(sink_of(kafka, topic), {})
        opened.append(PartitionConsumer(settings, topic, partition, wants_keys=wants_keys))
        return opened[-1]

    yield consumer
    for opened_consumer in opened:
        opened_consumer.close()


def test_records_come_in_batches_with_keys_times_and_the_offset_after_them(
    kafka: Broker, topic: str, opens: Opens
) -> None:
    records = [(b"k%d" % at, None if at == 3 else b"v%d" % at) for at in range(500)]
    produce(client(kafka), topic, 1, records)
    consumer = opens(1, wants_keys=True)

    consumer.seek(2)
    consumer.resume()
    batches = read(consumer, up_to=500)

    assert [key for one in batches for key in one.keys] == [key for key, _ in records[2:]]
    assert [value for one in batches for value in one.values] == [v for _, v in records[2:]]
    assert [int(at) for one in batches for at in one.offsets] == list(range(2, 500))
    assert all(one.timestamps_ms.min() > 1_600_000_000_000 for one in batches if len(one))
    assert {one.seeks for one in batches} == {1}


def test_transactions_leave_gaps_and_an_aborted_end_moves_the_offset(
    kafka: Broker, topic: str, opens: Opens
) -> None:
    producer = Producer({**client(kafka), "transactional.id": topic})
    producer.init_transactions(20)
    for is_good in (True, False, True, False, False):
        producer.begin_transaction()
        for at in range(10):
            producer.produce(topic, b"%d" % at, partition=0)
        producer.flush(10)
        if is_good:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
    consumer = opens()

    consumer.seek(0)
    consumer.resume()
    batches = read(consumer, up_to=55)

    assert [int(at) for one in batches for at in one.offsets] == [*range(10), *range(22, 32)]
    assert consumer.next_offset == 55


def test_open_transaction_ends_the_partition_until_it_is_decided(
    kafka: Broker, topic: str, topics: Topics, opens: Opens
) -> None:
    produce(client(kafka), topic, 0, [(None, b"before")])
    producer = Producer({**client(kafka), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"within", partition=0)
    producer.flush(10)
    produce(client(kafka), topic, 0, [(None, b"after")])
    consumer = opens()
    consumer.seek(0)
    consumer.resume()

    undecided, end = read(consumer, up_to=1), topics.facts(topic).watermarks[0]
    assert consumer.poll(100, 0.5) is None
    producer.abort_transaction(10)
    decided = read(consumer, up_to=4)

    assert values(undecided) == [b"before"]
    assert end == (0, 1)
    assert values(decided) == [b"after"]
    assert topics.facts(topic).watermarks[0] == (0, 4)


def test_compacted_records_are_a_gap(kafka: Broker, topics: Topics) -> None:
    name = f"{fresh_topic(topics, 1)}-compacted"
    often = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    topics.create(name, 1, {**often, "max.compaction.lag.ms": "200"})
    for at in range(4):
        produce(client(kafka), name, 0, [(b"same", b"%d" % at)] * 20)
        produce(client(kafka), name, 0, [(b"other %d" % at, b"kept")])
    settings = consumer_settings(sink_of(kafka, name), {})

    def read_all() -> list[int]:
        # The last segment is never compacted, and it is closed by a record that comes later.
        produce(client(kafka), name, 0, [(b"tick", b"")])
        consumer = PartitionConsumer(settings, name, 0, wants_keys=False)
        consumer.seek(0)
        consumer.resume()
        batches = read(consumer, up_to=topics.facts(name).watermarks[0][1])
        consumer.close()
        return [int(at) for one in batches for at in one.offsets]

    eventually(lambda: {20, 41, 62} <= set(offsets := read_all()) and 0 not in offsets)


def test_offset_that_retention_took_is_an_error_that_says_so(
    kafka: Broker, topic: str, topics: Topics, opens: Opens
) -> None:
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(100)])
    topics.delete_records(topic, {0: 40})
    consumer = opens()
    consumer.seek(39)
    consumer.resume()

    with pytest.raises(OffsetExpired, match="offset=39"):
        read(consumer, up_to=100)

    assert consumer.poll(100, 1.0) is None, "it is paused after an error"
    consumer.seek(topics.facts(topic).watermarks[0][0])
    consumer.resume()
    assert [int(at) for one in read(consumer, up_to=100) for at in one.offsets] == [*range(40, 100)]


def test_offset_past_the_end_is_an_error_too(opens: Opens) -> None:
    consumer = opens()
    consumer.seek(7)
    consumer.resume()

    with pytest.raises(OffsetExpired, match="offset=7"):
        read(consumer, up_to=8)


def test_paused_consumer_gives_nothing_and_goes_on_where_it_was(
    kafka: Broker, topic: str, opens: Opens
) -> None:
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(300)])
    consumer = opens()
    assert consumer.poll(10, 1.0) is None, "nobody told it to begin"
    consumer.seek(0)
    assert consumer.poll(10, 1.0) is None, "it was sent somewhere, and is paused still"

    consumer.resume()
    first = read(consumer, up_to=1, records_max=10)
    consumer.pause()
    while_paused = [consumer.poll(10, 0.2) for _ in range(3)]
    consumer.resume()
    rest = read(consumer, up_to=300)

    assert while_paused == [None] * 3
    assert [int(at) for one in (*first, *rest) for at in one.offsets] == list(range(300))


def test_after_a_seek_nothing_comes_that_was_fetched_before_it(
    kafka: Broker, topic: str, opens: Opens
) -> None:
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(5_000)])
    consumer = opens()
    consumer.seek(0)
    consumer.resume()
    read(consumer, up_to=10, records_max=10)

    for seeks, target in enumerate((4_000, 17, 17, 2_500, 0), start=2):
        consumer.seek(target)
        batch = next(iter(read(consumer, up_to=target + 1, records_max=10)))
        assert (int(batch.offsets[0]), batch.seeks) == (target, seeks)


def test_group_offset_follows_as_a_hint(kafka: Broker, topic: str, opens: Opens) -> None:
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(9)])
    consumer = opens()
    consumer.seek(0)
    consumer.resume()
    read(consumer, up_to=9)

    consumer.hint(9)

    eventually(lambda: committed(kafka, topic) == 9)
    assert consumer.hints_refused == 0


def committed(kafka: Broker, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    settings = {**connection_settings(sink_of(kafka, topic), {}), "group.id": f"sluice-{topic}"}
    looking = Consumer(settings)
    offset = looking.committed([TopicPartition(topic, 0)], timeout=60)[0].offset
    looking.close()
    return int(offset)


def read(consumer: PartitionConsumer, *, up_to: int, records_max: int = 1_000) -> list[RawBatch]:
    """Batches until the consumer stands at this offset or past it."""
    batches: list[RawBatch] = []

    def has_all() -> bool:
        if (batch := consumer.poll(records_max, 0.2)) is not None:
            batches.append(batch)
        return consumer.next_offset >= up_to

    eventually(has_all)
    return batches


def values(batches: list[RawBatch]) -> list[bytes | None]:
    return [value for one in batches for value in one.values]
