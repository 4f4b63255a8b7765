"""The sink as a Spark job on a Connect server: started, killed and stopped as users do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from tests.sink.conftest import MakeTable
from tests.support.kafka import eventually, fresh_topic
from tests.support.sink_run import ask_to_stop, assert_each_offset_once, has_committed, send
from tests.support.spark_server import new_session
from workers.errors import InvalidInput
from workers.ports import system_ports
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.sink.state_file import read_state
from workers.sink.stop_request import StopKind
from workers.spark.sink import SinkEnded, run_sink
from workers.storage.local import LocalStorage
from workers.table.table import open_

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EACH = 5_000
SECRET = b"a secret of the tests"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with new_session() as session:
        yield session


def run(spark: SparkSession, location: str, options: Mapping[str, str]) -> SinkEnded:
    table = open_(LocalStorage(location), system_ports())
    return run_sink(table, spark, options, secret=SECRET)


@contextmanager
def running(
    spark: SparkSession, location: str, options: Mapping[str, str], kind: StopKind
) -> Iterator[list[SinkEnded]]:
    """The sink in a thread, stopped at the end; how it ended stands in the list."""
    ended: list[SinkEnded] = []
    thread = threading.Thread(target=lambda: ended.append(run(spark, location, options)))
    thread.start()
    try:
        yield ended
    finally:
        ask_to_stop(location, options["hoodie.kafka.topic"], kind)
        thread.join(90)
        assert not thread.is_alive()


def workers_of(location: str, sink_id: str) -> set[int]:
    """The processes that have participants."""
    state = read_state(LocalStorage(location), sink_id)
    assert state is not None
    return {int(one.worker.partition(":")[2]) for one in state.participants if one.worker}


def test_a_sink_goes_on_when_its_python_processes_are_killed_and_stops_when_asked(
    kafka: Broker, topic: str, location: str, make_table: MakeTable, spark: SparkSession
) -> None:
    options = make_table(topic, **{"hoodie.kafka.partitions.per.task": "2"})
    for partition in range(4):
        send(kafka, topic, partition, 0, EACH)

    with running(spark, location, options, StopKind.GRACEFUL) as ended:
        first = dict.fromkeys(range(4), EACH)
        eventually(lambda: has_committed(location, topic, first), within_s=90)
        doomed = workers_of(location, topic)
        assert len(doomed) == 2
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for partition in range(4):
            send(kafka, topic, partition, EACH, EACH)
        both = dict.fromkeys(range(4), 2 * EACH)
        eventually(lambda: has_committed(location, topic, both), within_s=90)
        assert not doomed & workers_of(location, topic)
        assert ended == []

    assert [one.is_failed for one in ended] == [False]
    assert_each_offset_once(location, both)


def test_a_hard_stop_aborts_the_transaction(
    kafka: Broker, topic: str, location: str, make_table: MakeTable, spark: SparkSession
) -> None:
    options = make_table(topic, **{"hoodie.kafka.commit.interval.secs": "600"})
    send(kafka, topic, 1, 0, EACH)

    def is_open() -> bool:
        state = read_state(LocalStorage(location), topic)
        return state is not None and state.state == "STARTED_COMMIT"

    with running(spark, location, options, StopKind.HARD) as ended:
        eventually(is_open, within_s=60)

    assert [one.is_failed for one in ended] == [False]
    assert_each_offset_once(location, {})
    table = open_(LocalStorage(location), system_ports())
    assert list(table.timeline().pending()) == []


def test_a_stop_that_is_asked_for_while_the_sink_starts_ends_it(
    kafka: Broker, topic: str, location: str, make_table: MakeTable, spark: SparkSession
) -> None:
    options = make_table(topic)
    send(kafka, topic, 1, 0, EACH)
    table = open_(LocalStorage(location), system_ports())
    wanted_at_ms = table.ports.clock.now_ms()
    ask_to_stop(location, topic)

    ended = run_sink(table, spark, options, secret=SECRET, wanted_at_ms=wanted_at_ms)

    assert (ended.reason, ended.is_failed) == ("stop asked for by a test", False)
    assert_each_offset_once(location, {})


def test_more_tasks_than_slots_are_refused_before_anything_begins(
    topics: Topics, location: str, make_table: MakeTable, spark: SparkSession
) -> None:
    assert spark.conf.get("spark.master") == "local[4,4]"
    options = make_table(fresh_topic(topics, 5), **{"hoodie.kafka.partitions.per.task": "1"})
    with pytest.raises(InvalidInput, match="more tasks at once than Spark runs"):
        run(spark, location, options)
