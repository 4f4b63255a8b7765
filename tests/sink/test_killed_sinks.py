"""Workers, the coordinator's among them, and the broker are killed at random while records come in:
each offset is one row all the same.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.sink.conftest import StartSink
from tests.support.kafka import KEPT, fresh_topic
from tests.support.sink_run import SinkRun, assert_each_offset_once, send
from workers.sink.config import sink_config
from workers.sink.kafka.broker import Broker, kafka_class_path
from workers.sink.kafka.client_config import connection
from workers.sink.kafka.topics import Topics

PARTITIONS = 8
WORKERS = 3
_PART = 5_000
"""Records of one send."""


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Of this test alone: it is killed."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), kafka_class_path(KEPT))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    config = sink_config({"hoodie.kafka.topic": "none", "bootstrap.servers": kafka.bootstrap})
    return Topics(connection(config, {}))


@contextmanager
def producing(
    kafka: Broker, topic: str, each: int, broker_is_up: threading.Event
) -> Iterator[threading.Event]:
    """Records for all partitions in the background, until all are sent; the event says so."""
    all_sent, given_up = threading.Event(), threading.Event()

    def produce() -> None:
        for first in range(0, each, _PART):
            for partition in range(PARTITIONS):
                while not broker_is_up.wait(0.1):
                    if given_up.is_set():
                        return
                with sending:
                    send(kafka, topic, partition, first, _PART)
        all_sent.set()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield all_sent
    finally:
        given_up.set()
        broker_is_up.set()
        thread.join()


sending = threading.Lock()
"""The broker is killed between two sends: what a producer sends twice is its own affair."""


def kill_something(
    run: SinkRun, kafka: Broker, broker_is_up: threading.Event, chance: random.Random
) -> str:
    victim = chance.choice(["coordinator", "worker", "worker", "all", "broker"])
    if victim == "broker":
        with sending:
            broker_is_up.clear()
            kafka.kill()
            time.sleep(chance.random())
            kafka.start()
            broker_is_up.set()
    elif victim == "all":
        for number in list(run.processes):
            run.kill(number)
    else:
        run.kill(0 if victim == "coordinator" else chance.randrange(1, WORKERS))
    return victim


@pytest.mark.parametrize(
    ("kills", "records"),
    [
        pytest.param(15, 400_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(100, 5_200_000, marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
def test_each_offset_is_one_row_whatever_is_killed(
    kafka: Broker, topics: Topics, location: str, start_sink: StartSink, kills: int, records: int
) -> None:
    seed = int(os.environ.get("SLUICE_SINK_SEED", str(random.randrange(10**9))))
    chance = random.Random(seed)
    topic = fresh_topic(topics, PARTITIONS)
    broker_is_up = threading.Event()
    broker_is_up.set()
    run = start_sink(topic, workers=WORKERS)
    killed: list[str] = []

    with producing(kafka, topic, records // PARTITIONS, broker_is_up) as all_sent:
        while len(killed) < kills:
            time.sleep(chance.uniform(0.2, 4.0))
            killed.append(kill_something(run, kafka, broker_is_up, chance))
            run.keep_up()
        assert all_sent.wait(600), (seed, killed)
    ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
    run.await_offsets(ends, within_s=120)
    run.stop()

    told = json.dumps({"seed": seed, "killed": killed})
    rows = assert_each_offset_once(location, ends)
    assert rows.column("id").equals(rows.column("_kafka_offset")), told
