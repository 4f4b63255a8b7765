"""A sink's table, topic and workers: real Kafka, real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.kafka import fresh_topic, kafka, topics
from tests.support.sink_run import SinkRun
from workers.ports import system_ports
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.sink.tables import create_append_table
from workers.storage.opener import open_storage
from workers.table_layout import PROPERTIES

__all__ = ["kafka", "topics"]

_TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "told": pa.string()}
SCHEMA = pa.schema(_TYPES)

MakeTable = Callable[..., dict[str, str]]
StartSink = Callable[..., SinkRun]


@pytest.fixture
def topic(topics: Topics) -> str:
    """Four partitions."""
    return fresh_topic(topics, 4)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def make_table(kafka: Broker, topics: Topics, location: str) -> MakeTable:
    """`make_table(topic, **options)`: an append-only table for the topic unless there is one, and
    the options of a sink that commits every second.
    """

    def make(topic: str, **options: str) -> dict[str, str]:
        storage = open_storage(location)
        if storage.info(PROPERTIES.path) is None:
            create_append_table(
                storage,
                system_ports(),
                name="trips",
                schema=SCHEMA,
                topic=topic,
                partitions=len(topics.facts(topic).watermarks),
            )
        return {
            "hoodie.kafka.topic": topic,
            "bootstrap.servers": kafka.bootstrap,
            "hoodie.kafka.control.topic": f"{topic}-control",
            "hoodie.kafka.commit.interval.secs": "1",
            "hoodie.kafka.coordinator.write.timeout.secs": "10",
            "hoodie.kafka.start.offsets": "earliest",
            "hoodie.kafka.compaction.async.enable": "false",
            **options,
        }

    return make


@pytest.fixture
def start_sink(make_table: MakeTable, tmp_path: Path, location: str) -> Iterator[StartSink]:
    """`start_sink(topic, workers=2, **options)`: another launch; all end with the test."""
    runs: list[SinkRun] = []

    def start(topic: str, *, workers: int = 2, **options: str) -> SinkRun:
        run = SinkRun(location, make_table(topic, **options), workers, tmp_path)
        runs.append(run)
        run.start()
        return run

    yield start
    for run in runs:
        run.end()
