"""A sink as a Spark program whose table is in a bucket: worker, JVM and driver are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sink.conftest import MakeTable
from tests.sink.test_sink_in_bucket import location
from tests.support.sink_run import assert_each_offset_once, say, send
from tests.support.spark_sink_run import SparkSinkRun
from workers.lakehouse import open_table
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.kafka.broker import Broker
from workers.sink.sink_commits import ID_KEY

__all__ = ["location"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

EACH = 2_000
PARTITIONS = 4


@pytest.fixture
def run(make_table: MakeTable, topic: str, location: str, tmp_path: Path) -> Iterator[SparkSinkRun]:
    options = make_table(topic, **{"hoodie.kafka.partitions.per.task": "2"})
    run = SparkSinkRun(location, options, tmp_path, PARTITIONS)
    run.start()
    yield run
    run.end()


def test_each_offset_is_one_row_of_the_bucket_whatever_is_killed(
    kafka: Broker, topic: str, location: str, run: SparkSinkRun
) -> None:
    for number, victim in enumerate(("worker", "jvm", "driver")):
        workers = run.await_workers()
        for partition in range(PARTITIONS):
            send(kafka, topic, partition, number * EACH, EACH)
        if victim == "worker":
            run.kill(workers[PARTITIONS - 1])
        elif victim == "jvm":
            run.kill_jvm()
        else:
            run.kill_driver()
        run.keep_up()
        run.await_offsets(dict.fromkeys(range(PARTITIONS), (number + 1) * EACH), within_s=180)
    say(kafka, topic, 0, b"{broken")
    run.await_offsets({0: 3 * EACH + 1}, within_s=180)
    run.stop()

    names = list_dead_letter_files(open_table(location).table, sink_key=ID_KEY, sink_id=topic)
    dead_letters = read_dead_letters(f"{location}-dead-letters", names).to_pylist()
    assert [row["value"] for row in dead_letters] == [b"{broken"]
    assert_each_offset_once(location, dict.fromkeys(range(PARTITIONS), 3 * EACH))
