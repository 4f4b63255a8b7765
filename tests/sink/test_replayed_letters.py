"""From poison to a row: a dead letter is sent again once what was wrong is mended."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from tests.sink.conftest import StartSink
from tests.support.kafka import client, fresh_topic
from tests.support.sink_run import SinkRun
from workers.lakehouse import open_table
from workers.sink.dead_letter_selection import DeadLetterSelection, select_dead_letters
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.replay import ReplayResult, replay_letters
from workers.sink.kafka.topics import Topics
from workers.sink.sink_commits import ID_KEY

AT_MS = int(time.time() * 1000) - 3_600_000
"""Recent: the broker deletes what is older than a week whenever it looks."""
pytestmark = pytest.mark.slow


def say(kafka: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({**client(kafka)})
    for number, value in enumerate(values):
        headers: list[tuple[str, str | bytes | None]] = [("trace", b"%d" % number)]
        producer.produce(topic, value, b"key", 0, timestamp=AT_MS, headers=headers)
    assert producer.flush(20) == 0


def letter_files(run: SinkRun) -> list[str]:
    table = open_table(run.location).table
    return list_dead_letter_files(table, sink_key=ID_KEY, sink_id=run.sink_id)


def replay(run: SinkRun, token: str) -> ReplayResult:
    table, names = open_table(run.location).table, letter_files(run)
    directory = f"{run.location}-dead-letters"
    return replay_letters(
        table,
        run.config,
        {},
        lambda sent: select_dead_letters(directory, names, DeadLetterSelection(), sent),
        token=token,
        by="ada",
    )


def test_a_letter_becomes_a_row_once_the_sink_decodes_it(
    kafka: Broker, topics: Topics, location: str, start_sink: StartSink
) -> None:
    topic = fresh_topic(topics, 1)
    say(kafka, topic, b"1,one", b"two,too,many", b'{"id": 3, "told": "three"}')
    wrong = start_sink(topic)
    wrong.await_offsets({0: 3})
    wrong.stop()
    assert open_table(location).read().num_rows == 1

    mended = start_sink(
        topic, **{"hoodie.sink.format": "csv", "hoodie.sink.csv.columns": "id,told"}
    )
    first, second = replay(mended, "a"), replay(mended, "b")
    _, end = topics.facts(topic).watermarks[0]
    mended.await_offsets({0: end - 1})
    mended.stop()

    assert (first, second) == (ReplayResult(2, 0), ReplayResult(0, 2))
    rows = open_table(location).read().sort_by("id").to_pylist()
    assert [(one["id"], one["told"], one["_kafka_offset"]) for one in rows] == [
        (1, "one", 3),
        (3, "three", 2),
    ]
    first_sent = [round(one["_kafka_timestamp"].timestamp() * 1000) for one in rows]
    assert first_sent[0] > AT_MS  # Sent again, so that the broker keeps it.
    assert first_sent[1] == AT_MS
    letters = read_dead_letters(f"{location}-dead-letters", letter_files(mended)).to_pylist()
    assert [(one["_kafka_offset"], one["key"], one["value"]) for one in letters] == [
        (0, b"key", b"1,one"),
        (1, b"key", b"two,too,many"),
        (4, b"key", b"two,too,many"),
    ]
    assert [header["name"] for header in letters[2]["headers"]] == [
        "trace",
        "sluice-time",
        "sluice-replay",
    ]
