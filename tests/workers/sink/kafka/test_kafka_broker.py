"""The broker dies and comes back; topics are deleted and created again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka import (
    WAIT_S_MAX,
    add_partitions,
    client,
    eventually,
    fresh_topic,
    sink_of,
)
from tests.support.kafka_jars import require_class_path
from tests.workers.sink.kafka.test_kafka_consumer import read
from workers.clock import SystemClock
from workers.errors import InvalidInput, KafkaFailed, NotFound
from workers.processes import find_free_port, is_port_taken, start_on_free_ports
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.control_bus import ControlBus
from workers.sink.kafka.topics import Topics, produce

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
START_S_MAX = 120.0


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may kill."""
    broker = Broker(tmp_path / "kafka", require_class_path())
    broker.start(wait_s=START_S_MAX)
    yield broker
    broker.stop()


@pytest.mark.slow
def test_killed_broker_comes_back_with_its_records_and_clients_go_on(own_kafka: Broker) -> None:
    kafka, topics = own_kafka, Topics(client(own_kafka), timeout_s=WAIT_S_MAX)
    topic = fresh_topic(topics, 2)
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(1_000)])
    before = topics.facts(topic)
    bus = ControlBus(sink_of(kafka, topic), {}, SystemClock(), worker="w", timeout_s=3.0)
    consumer = PartitionConsumer(
        consumer_settings(sink_of(kafka, topic), {}), topic, 0, wants_keys=False
    )
    consumer.seek(0)
    consumer.resume()
    read(consumer, up_to=100, records_max=100)

    kafka.kill()
    with pytest.raises(KafkaFailed):
        bus.publish([b"nobody is there"])
    with pytest.raises(KafkaFailed):
        Topics(client(kafka), timeout_s=1.0).facts(topic)
    kafka.start(wait_s=START_S_MAX)
    produce(client(kafka), topic, 0, [(None, b"%d" % at) for at in range(1_000, 1_100)])
    batches = read(consumer, up_to=1_100)

    assert [int(at) for one in batches for at in one.offsets][-1] == 1_099
    assert topics.facts(topic).topic_id == before.topic_id
    eventually(lambda: is_heard(bus, b"here again"))
    bus.close()
    consumer.close()


@pytest.mark.slow
def test_control_topic_that_is_made_anew_after_its_broker_died_is_heard_again(
    own_kafka: Broker,
) -> None:
    """The new topic's leader epoch is lower than what consumers remember of the old one."""
    kafka, topics = own_kafka, Topics(client(own_kafka), timeout_s=WAIT_S_MAX)
    topic = fresh_topic(topics, 2)
    buses = [
        ControlBus(sink_of(kafka, topic), {}, SystemClock(), worker=name, timeout_s=3.0)
        for name in ("one", "other")
    ]
    kafka.kill()
    kafka.start(wait_s=START_S_MAX)
    for bus in buses:
        eventually(lambda bus=bus: is_heard(bus, b"old"))  # type: ignore[misc]
    topics.delete(f"{topic}-control")

    for bus in buses:
        eventually(lambda bus=bus: is_heard(bus, b"new"), within_s=120)  # type: ignore[misc]
    for bus in buses:
        bus.close()


def is_heard(bus: ControlBus, word: bytes) -> bool:
    try:
        bus.publish([word])
    except KafkaFailed:
        return False
    return word in bus.poll(0.3)


def test_topic_that_was_made_again_is_another_one(
    kafka: Broker, topic: str, topics: Topics
) -> None:
    produce(client(kafka), topic, 1, [(None, b"x")] * 5)
    old = topics.facts(topic)

    topics.delete(topic)
    eventually(lambda: is_missing(topics, topic))
    topics.create(topic, 2)
    new = topics.facts(topic)

    assert old.watermarks == {0: (0, 0), 1: (0, 5)}
    assert new.watermarks == {0: (0, 0), 1: (0, 0)}
    assert new.topic_id != old.topic_id
    assert topics.topic_id(topic) == new.topic_id


def test_added_partitions_are_seen(kafka: Broker, topics: Topics, topic: str) -> None:
    add_partitions(kafka, topic, 5)

    eventually(lambda: len(topics.facts(topic).watermarks) == 5)


def test_topic_is_made_once(topics: Topics, topic: str) -> None:
    with pytest.raises(InvalidInput, match="exists"):
        topics.create(topic, 2)

    assert not topics.create_if_missing(topic, 2)


def test_deleted_head_is_seen_in_the_watermarks(kafka: Broker, topics: Topics) -> None:
    name = fresh_topic(topics, 1)
    produce(client(kafka), name, 0, [(None, b"x")] * 10)

    topics.delete_records(name, {0: 7})

    assert topics.facts(name).watermarks == {0: (7, 10)}


def test_broker_that_does_not_come_up_says_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    wrong = {"broker.session.timeout.ms": "never"}
    broker = Broker(tmp_path_factory.mktemp("kafka"), require_class_path(), settings=wrong)

    with pytest.raises(KafkaFailed, match=r"broker\.session\.timeout\.ms"):
        broker.start()


def test_broker_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    """So that one with ports of its own choice is started again with others."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ports = (listener.getsockname()[1], find_free_port())
        broker = Broker(tmp_path, require_class_path(), ports=ports)

        with pytest.raises(KafkaFailed) as error:
            broker.start()

    assert is_port_taken(error.value), error.value


def test_directory_of_a_broker_whose_port_was_taken_is_used_by_the_next_one(
    tmp_path: Path,
) -> None:
    brokers: list[Broker] = []

    def start(port: int, controller_port: int) -> Broker:
        if not brokers:
            taken.bind(("127.0.0.1", controller_port))
            taken.listen()
        brokers.append(Broker(tmp_path, require_class_path(), ports=(port, controller_port)))
        brokers[-1].start()
        return brokers[-1]

    with socket.socket() as taken:
        broker = start_on_free_ports(start, count=2)
    broker.stop()

    assert len(brokers) == 2


def is_missing(topics: Topics, topic: str) -> bool:
    try:
        topics.facts(topic)
    except NotFound:
        return True
    return False
