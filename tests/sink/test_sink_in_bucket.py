"""A sink whose table is in a bucket: offsets, epochs, stop requests and letters are objects."""

from __future__ import annotations

import pytest

from tests.sink.conftest import StartSink
from tests.support.sink_run import assert_each_offset_once, say, send
from tests.support.storages import use_bucket
from workers.lakehouse import open_table
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.kafka.broker import Broker
from workers.sink.sink_commits import ID_KEY

EACH = 500

pytestmark = pytest.mark.slow


@pytest.fixture
def location(monkeypatch: pytest.MonkeyPatch) -> str:
    return use_bucket(monkeypatch)


def test_each_offset_is_one_row_whichever_worker_is_killed(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    run = start_sink(topic)
    for number in range(4):
        for partition in range(4):
            send(kafka, topic, partition, number * EACH, EACH)
        run.kill(number % 2)  # The first has the coordinator beside it.
        run.await_offsets(dict.fromkeys(range(4), (number + 1) * EACH))
    say(kafka, topic, 0, b"{broken")
    run.await_offsets({0: 4 * EACH + 1})
    run.stop()

    table = open_table(location).table
    names = list_dead_letter_files(table, sink_key=ID_KEY, sink_id=topic)
    letters = read_dead_letters(f"{location}-dead-letters", names).to_pylist()
    assert [one["value"] for one in letters] == [b"{broken"]
    assert_each_offset_once(location, dict.fromkeys(range(4), 4 * EACH))
