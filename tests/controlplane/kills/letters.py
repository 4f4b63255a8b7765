"""Dead letters that are sent again while workers die: a table with a sink's commits, its letters,
and a topic of a real broker in which each of them is to be once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from django.contrib.auth.models import User

from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_replay
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from tests.support.sinks import SINK, commit_offsets
from workers import create_table
from workers.sink.batch import BadRecord, Source
from workers.sink.config import sink_config
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

TOPIC: Final = "kills"
LETTERS: Final = 3
"""In each commit, all of which one replay sends."""
_COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
_SCHEMA: Final = pa.schema(_COLUMNS)
_READ_S: Final = 10.0


class Letters:
    """`row` is the table's; each replay is of a commit of its own."""

    def __init__(self, root: Path, bootstrap: str, by: User) -> None:
        self.location = root / "letters"
        self._bootstrap, self._by = bootstrap, by
        self._offset = 0
        create_table(
            self.location, name="letters", schema=_SCHEMA, record_key=["id"], ordering=["ts"]
        )
        self.row = do_register_table(location=str(self.location), slug="letters", by=by)
        self._directory = Path(f"{self.location}-dead-letters")
        self._directory.mkdir()
        options = {
            "hoodie.kafka.topic": TOPIC,
            "hoodie.sink.id": SINK,
            "bootstrap.servers": bootstrap,
            "hoodie.kafka.control.topic": f"{TOPIC}-control",
        }
        Topics(connection_settings(sink_config(options), {})).create(TOPIC, 1)
        self.sink = Operation.objects.create(
            table=self.row,
            kind="sink",
            sink_id=SINK,
            state="cancelled",
            parameters={"job": {"sink_options": options}},
        )

    def ask(self, reason: str) -> tuple[Operation, tuple[str, ...]]:
        """A replay of letters that were just left out, and what they say."""
        offsets = range(self._offset, self._offset + LETTERS)
        self._offset = offsets.stop
        said = tuple(f"letter {offset}" for offset in offsets)
        bad = [
            BadRecord(offset, b"k", text.encode(), "not JSON")
            for offset, text in zip(offsets, said, strict=True)
        ]
        instant_like = f"{20200101000000000 + offsets.start}"
        written = DeadLetters(str(self._directory), instant_like).write(
            dead_letters_to_arrow(Source(TOPIC, 0), bad), TaskIds()
        )
        extra = {
            "hoodie.sink.dlq.count": str(LETTERS),
            "hoodie.sink.topic": TOPIC,
            "sluice.dead_letter.files": written.name,
        }
        instant = commit_offsets(str(self.location), f"0={offsets.stop}", extra=extra)
        sync_table(self.row)
        operation = do_request_replay(self.row, SINK, by=self._by, instant=instant, reason=reason)
        return operation, said

    def in_topic(self) -> Counter[str]:
        """How often each letter is there, as a reader of what is committed sees it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "oracle",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        seen: Counter[str] = Counter()
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            while (message := consumer.poll(_READ_S)) is not None:
                if (error := message.error()) is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    return seen
                seen[(message.value() or b"").decode()] += 1
        finally:
            consumer.close()
        raise AssertionError("the topic is not read in time")
