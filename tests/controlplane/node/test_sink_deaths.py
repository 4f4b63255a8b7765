"""Whatever dies of a node while a sink runs, and while its dead letters are sent again: a minute
after the node is whole again the sink goes on or is over, and the letters are in the topic once.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from controlplane.operations.states import FINAL
from tests.controlplane.node.test_deaths import (
    SETTLED_WITHIN_S,
    VICTIMS,
    LiveNode,
    _roots,
    kill,
    live,
)
from tests.controlplane.prepared_tables import BERGEN, OSLO, TURKU, fresh_lake, rows_of
from tests.support.kafka import client, fresh_topic, kafka, topics
from tests.support.sink_run import say
from workers import open_table
from workers.concurrency.heartbeat import read_heartbeats
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics

__all__ = ["_roots", "kafka", "live", "topics"]

pytestmark = [pytest.mark.soak, pytest.mark.kafka, pytest.mark.timeout(900)]

SEED = int(os.environ["SLUICE_TEST_SEED"])
SINK = "in"
BAD = b"no JSON"
_STARTS_WITHIN_S = 120.0
_DIES_WITHIN_S = 20.0
"""After it was asked for: in the middle of its start, or of its transactions of a second each."""
_REPLAY_DIES_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class RunningSink:
    live: LiveNode
    broker: Broker
    topic: str
    location: Path

    @property
    def path(self) -> str:
        return f"tables/{self.location.name}/sinks/"

    def start(self) -> str:
        """The operation's id."""
        options = {
            "hoodie.kafka.topic": self.topic,
            "hoodie.sink.id": SINK,
            "bootstrap.servers": self.broker.bootstrap,
            "hoodie.kafka.control.topic": f"{self.topic}-control",
            "hoodie.kafka.commit.interval.secs": "1",
            "hoodie.kafka.start.offsets": "earliest",
            "hoodie.kafka.compaction.async.enable": "false",
            "hoodie.sink.mode": "upsert",
        }
        body = {"sink_options": options, "application": "connect"}
        return operation_id(self.live.api.post(self.path, body))

    def relaunch(self) -> str:
        return operation_id(self.live.api.post(f"{self.path}{SINK}/relaunch/", {}))

    def stop(self) -> None:
        self.live.api.post(f"{self.path}{SINK}/stop/", {})

    def replay(self) -> str:
        body = {"letters": ["0:1"], "reason": "mended"}
        return operation_id(self.live.api.post(f"{self.path}{SINK}/dead-letters/replay/", body))

    def send(self, *values: bytes) -> None:
        say(self.broker, self.topic, 0, *values)

    def state_of(self, operation: str) -> str:
        return str(self.live.api.get(f"operations/{operation}/")["row"]["state"])

    def has(self, row: dict[str, Any]) -> bool:
        return row in rows_of(self.location)

    def shows_letters(self) -> bool:
        """The mirror has seen the commit that left them out."""
        return bool(self.live.api.get(f"{self.path}{SINK}/dead-letters/"))

    def is_swept(self) -> bool:
        table = open_table(self.location).table
        return not list(table.timeline().pending()) and not read_heartbeats(table.storage)

    def sent_times(self, value: bytes) -> int:
        """How often the topic has it, of what was committed."""
        reader = Consumer(
            {
                **client(self.broker),
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        reader.subscribe([self.topic])
        count, deadline = 0, time.monotonic() + 60
        while (message := reader.poll(1.0)) is None or message.error() is None:
            assert time.monotonic() < deadline
            count += message is not None and message.value() == value
        reader.close()
        return count


def operation_id(shown: Any) -> str:
    return str(shown["row"]["id"])


def await_(claim: Callable[[], bool], within_s: float, said: Callable[[], object]) -> None:
    deadline = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < deadline, said()
        time.sleep(0.5)


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


@pytest.mark.parametrize("victim", VICTIMS)
def test_sink_and_its_letters_are_settled_a_minute_after_the_node_is_whole_again(
    victim: str, live: LiveNode, kafka: Broker, topics: Topics
) -> None:
    chance = random.Random(f"{SEED} sink {victim}")
    live.up()
    lake = fresh_lake(live.places.tables / f"sunk-{uuid.uuid4().hex[:8]}", "sink")
    slug = lake.row.slug
    live.api.post("tables/", {"location": lake.row.location, "slug": slug, "name": slug})
    sink = RunningSink(live, kafka, fresh_topic(topics, 1), Path(lake.row.location))
    sink.send(as_json(OSLO), BAD)

    operation = sink.start()
    time.sleep(chance.random() * _DIES_WITHIN_S)
    kill(victim, live)
    live.up()
    live.await_whole()
    sink.send(as_json(BERGEN))

    def shown() -> object:
        return live.api.get(f"operations/{operation}/")

    await_(lambda: sink.has(BERGEN) or sink.state_of(operation) in FINAL, SETTLED_WITHIN_S, shown)
    if sink.state_of(operation) in FINAL:
        await_(sink.is_swept, SETTLED_WITHIN_S, shown)
        operation = sink.relaunch()
    await_(lambda: sink.has(OSLO) and sink.has(BERGEN), _STARTS_WITHIN_S, shown)
    await_(sink.shows_letters, SETTLED_WITHIN_S, shown)

    replay = sink.replay()
    time.sleep(chance.random() * _REPLAY_DIES_WITHIN_S)
    kill(victim, live)
    live.up()
    live.await_whole()
    await_(
        lambda: sink.state_of(replay) in FINAL,
        SETTLED_WITHIN_S,
        lambda: live.api.get(f"operations/{replay}/"),
    )
    assert sink.state_of(replay) == "succeeded", live.api.get(f"operations/{replay}/")
    assert sink.sent_times(BAD) == 2

    sink.send(as_json(TURKU))
    await_(lambda: sink.has(TURKU) or sink.state_of(operation) in FINAL, SETTLED_WITHIN_S, shown)
    if sink.state_of(operation) not in FINAL:
        sink.stop()
    await_(lambda: sink.state_of(operation) in FINAL and sink.is_swept(), SETTLED_WITHIN_S, shown)
