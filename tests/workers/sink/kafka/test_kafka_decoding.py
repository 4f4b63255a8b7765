"""From a real partition to rows, and bad records back to it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.kafka import client, sink_of
from tests.workers.sink.kafka.test_kafka_consumer import read
from workers.sink.decoding.decoder import decoder
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.replay import produce_letters
from workers.sink.kafka.topics import Topics, produce
from workers.sink.letters import letters_table

pytestmark = pytest.mark.kafka


def test_dead_letters_are_sent_again_to_their_partition(
    kafka: Broker, topic: str, topics: Topics
) -> None:
    config = sink_of(kafka, topic)
    produce(client(kafka), topic, 1, [(b"a", b'{"id":1}'), (b"b", b"poison"), (b"c", b'{"id":3}')])
    consumer = PartitionConsumer(consumer_settings(config, {}), topic, 1, wants_keys=True)
    consumer.seek(0)
    consumer.resume()
    decode = decoder(config, pa.schema([("id", pa.int64())]))
    first = [decode(one) for one in read(consumer, up_to=3)]

    letters = letters_table(topic, 1, [bad for one in first for bad in one.bad])
    sent = produce_letters(client(kafka), letters)
    again = read(consumer, up_to=4)

    assert [one for batch in first for one in batch.rows.column("id").to_pylist()] == [1, 3]
    assert sent == 1
    assert [(batch.keys, batch.values, batch.offsets.tolist()) for batch in again] == [
        ([b"b"], [b"poison"], [3])
    ]
    assert topics.facts(topic).watermarks == {0: (0, 0), 1: (0, 4)}
    consumer.close()
