"""One real Apache Kafka for all tests of a session, and a topic of its own for each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.kafka_jars import require_class_path
from workers.sink.config import SinkConfig, sink_config
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import ClientSettings, connection_settings
from workers.sink.kafka.topics import Topics

WAIT_S_MAX = 60.0


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start it in about eight seconds."""
    directory, class_path = tmp_path_factory.mktemp("kafka"), require_class_path()
    broker = Broker(directory, class_path, settings={"log.cleaner.backoff.ms": "500"})
    broker.start(wait_s=2 * WAIT_S_MAX)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def topics(kafka: Broker) -> Topics:
    return Topics(client(kafka), timeout_s=WAIT_S_MAX)


@pytest.fixture
def topic(topics: Topics) -> str:
    """Two partitions."""
    return fresh_topic(topics, 2)


def fresh_topic(topics: Topics, partitions: int) -> str:
    name = f"trips-{uuid.uuid4().hex[:12]}"
    topics.create(name, partitions)
    return name


def add_partitions(broker: Broker, topic: str, total: int) -> None:
    """The topic has `total` partitions then."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(timeout=WAIT_S_MAX)


def sink_of(broker: Broker, topic: str, **options: str) -> SinkConfig:
    return sink_config(
        {
            "hoodie.kafka.topic": topic,
            "bootstrap.servers": broker.bootstrap,
            "hoodie.kafka.control.topic": f"{topic}-control",
            **options,
        }
    )


def client(broker: Broker) -> ClientSettings:
    return connection_settings(sink_of(broker, "none"), {})


def eventually(claim: Callable[[], bool], *, within_s: float = WAIT_S_MAX) -> None:
    deadline = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
