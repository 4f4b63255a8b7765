"""The sink from topic to table: real broker, a process for each worker."""

from __future__ import annotations

import pytest

from tests.sink.conftest import StartSink
from tests.support.sink_run import assert_each_offset_once, send
from workers.sink.kafka.broker import Broker

EACH = 3_000


@pytest.mark.slow
def test_every_record_of_every_partition_is_one_row(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    for partition in range(4):
        send(kafka, topic, partition, 0, EACH)

    run = start_sink(topic)
    run.await_offsets(dict.fromkeys(range(4), EACH))
    for partition in range(4):
        send(kafka, topic, partition, EACH, EACH)
    run.await_offsets(dict.fromkeys(range(4), 2 * EACH))
    run.stop()

    rows = assert_each_offset_once(location, dict.fromkeys(range(4), 2 * EACH))
    assert rows.column("id").to_pylist() == rows.column("_kafka_offset").to_pylist()
    state = run.state()
    assert state is not None
    assert state.state == "STOPPED"
