"""Whoever takes part in a sink is killed at random while records come in: Python workers, the
coordinator's among them, Spark's JVM, the driver, all at once, the broker. Meanwhile the consumer
group is deleted and the control topic wiped. Each offset is one row all the same.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from psutil import NoSuchProcess

from tests.sink.conftest import MakeTable
from tests.support.kafka import client, fresh_topic
from tests.support.kafka_jars import require_class_path
from tests.support.sink_run import assert_each_offset_once, send
from tests.support.spark_sink_run import SparkSinkRun
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import group_id
from workers.sink.kafka.topics import Topics

PARTITIONS = 8
VICTIMS = ("worker", "coordinator", "jvm", "driver", "all", "broker", "worker")
WIPED_EACH = 5
"""After every so many kills there is no consumer group and no control topic any more."""
COMMITTED_EACH = 3
"""Before every so many kills a transaction goes through, however busy the machine: what is killed
has a table behind it, and its commit, its end and its next start are among the moments.
"""
_BROKER_S = 300.0
_PART = 5_000
"""Records of one send."""


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Of this test alone: it is killed."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), require_class_path())
    broker.start(wait_s=_BROKER_S)
    yield broker
    broker.stop()


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return Topics(client(kafka))


@pytest.fixture
def topic(topics: Topics) -> str:
    return fresh_topic(topics, PARTITIONS)


@pytest.fixture
def run(make_table: MakeTable, topic: str, location: str, tmp_path: Path) -> Iterator[SparkSinkRun]:
    options = make_table(topic, **{"hoodie.kafka.partitions.per.task": "3"})
    run = SparkSinkRun(location, options, tmp_path, PARTITIONS)
    run.start()
    yield run
    run.end()


class Production:
    """Records for all partitions in the background, as many as were asked for until now."""

    def __init__(self, kafka: Broker, topic: str, each: int) -> None:
        self.broker_is_up = threading.Event()
        self.broker_is_up.set()
        self.sending = threading.Lock()
        """The broker is killed between two sends: what is sent twice is its own affair."""
        self._parts = [(first, one) for first in range(0, each, _PART) for one in range(PARTITIONS)]
        self._wanted = threading.Semaphore(0)
        self._given_up = False
        self._kafka, self._topic, self._each = kafka, topic, each
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> Production:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._given_up = True
        self.broker_is_up.set()
        self.ask(1, 1)
        self._thread.join()

    def ask(self, number: int, of: int) -> None:
        """Let the number-th part of so many equal ones be sent."""
        count = len(self._parts)
        share = count * number // of - count * (number - 1) // of
        if share:
            self._wanted.release(share)

    def await_all(self, within_s: float) -> None:
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "the records are not sent"

    def _produce(self) -> None:
        for first, partition in self._parts:
            self._wanted.acquire()
            self.broker_is_up.wait()
            if self._given_up:
                return
            with self.sending:
                count = min(_PART, self._each - first)
                send(self._kafka, self._topic, partition, first, count)


def kill(
    victim: str,
    run: SparkSinkRun,
    kafka: Broker,
    production: Production,
    chance: random.Random,
) -> None:
    """Of a sink that is up, so that every kill hits somebody who was not dying already."""
    while True:
        time.sleep(chance.uniform(0.0, 3.0))
        workers = run.await_workers()
        try:
            kill_one(victim, run, workers, chance)
        except NoSuchProcess:
            continue
        break
    if victim == "broker":
        production.broker_is_up.clear()
        with production.sending:
            kafka.kill()
            time.sleep(chance.random())
            kafka.start(wait_s=_BROKER_S)
        production.broker_is_up.set()


def kill_one(
    victim: str, run: SparkSinkRun, workers: Mapping[int, int], chance: random.Random
) -> None:
    """Raises NoSuchProcess."""
    match victim:
        case "jvm":
            run.kill_jvm()
        case "driver":
            run.kill_driver()
        case "all":
            run.kill_all()
        case "coordinator":
            run.kill(workers[0])
        case "broker":
            pass
        case _:
            run.kill(chance.choice(sorted({*workers.values()} - {workers[0]})))


def wipe(run: SparkSinkRun, topics: Topics, kafka: Broker) -> None:
    """A sink that is up deletes neither by itself, and makes both anew."""
    run.await_workers()
    group = group_id(run.config)
    # One that asked a group's coordinator before the broker was killed hears no answer any more.
    groups = AdminClient(dict(client(kafka)))
    if group in [one.group_id for one in groups.list_consumer_groups().result(_BROKER_S).valid]:
        groups.delete_consumer_groups([group])[group].result(_BROKER_S)
    topics.delete(run.config.control_topic)


@pytest.mark.parametrize(
    ("kills", "records"),
    [
        # Each victim once, and workers twice more.
        pytest.param(8, 200_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
        pytest.param(100, 5_200_000, marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
@pytest.mark.spark
def test_each_offset_is_one_row_whatever_is_killed(
    kafka: Broker,
    topics: Topics,
    topic: str,
    location: str,
    run: SparkSinkRun,
    kills: int,
    records: int,
) -> None:
    seed = int(os.environ.get("SLUICE_SINK_SEED", os.environ["SLUICE_TEST_SEED"]))
    chance = random.Random(seed)
    victims = [VICTIMS[number % len(VICTIMS)] for number in range(kills)]
    chance.shuffle(victims)
    print(json.dumps({"seed": seed, "victims": victims}))  # noqa: T201 # Shown when it fails.

    with Production(kafka, topic, records // PARTITIONS) as production:
        for number, victim in enumerate(victims, 1):
            production.ask(number, kills)
            if number % COMMITTED_EACH == 0:
                run.await_commit()
            kill(victim, run, kafka, production, chance)
            print(f"{number}: {victim}", flush=True)  # noqa: T201
            run.keep_up()
            if number % WIPED_EACH == 0:
                wipe(run, topics, kafka)
        production.await_all(600)
    ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
    run.await_offsets(ends, within_s=600)
    run.stop()

    assert run.commits() > kills // COMMITTED_EACH
    rows = assert_each_offset_once(location, ends)
    assert rows.column("id").equals(rows.column("_kafka_offset"))
