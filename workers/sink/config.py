"""What a sink is told, under Hudi's own names where Hudi has one.

Every key that Sluice understands stands in the table below with its default. A key that does not is
refused, because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workers.errors import InvalidInput
from workers.option_values import boolean, choice, integer, known


class SinkMode(StrEnum):
    APPEND = "append"
    """Each record is one row, whose key is where it came from; nothing is merged."""
    UPSERT = "upsert"
    """Records are versions of the table's rows; tombstones and the op column delete."""


class ValueFormat(StrEnum):
    JSON = "json"
    AVRO = "avro"
    CSV = "csv"


class KeyFormat(StrEnum):
    """How the keys of tombstones are read; keys of other records are not looked at."""

    AUTO = "auto"
    """What can be nothing else is JSON or Avro; the rest is plain text."""
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    """With a schema id before it, by the schemas of the file."""


class SchemaSource(StrEnum):
    TABLE = "table"
    """The columns that the table has; what else a record brings is left out and counted."""
    INFER = "infer"
    """As `table`, and new fields become columns, through the table's schema rules."""
    REGISTRY_FILE = "registry_file"
    """A JSON file of schema ids and Avro schemas, for values that begin with a schema id."""


class OnExpired(StrEnum):
    """When the topic no longer has the next offset."""

    FAIL = "fail"
    EARLIEST = "earliest"
    """Go on at the first one that is left, and say in the commit what was lost."""


class OnBadRecord(StrEnum):
    FAIL = "fail"
    DEAD_LETTER = "dead_letter"


SINK_OPTIONS: dict[str, str] = {
    "hoodie.sink.id": "",  # Which sink of the table this is; the topic's name when empty.
    "hoodie.kafka.topic": "",
    "bootstrap.servers": "localhost:9092",
    "hoodie.kafka.control.topic": "hudi-control-topic",
    "hoodie.kafka.commit.interval.secs": "60",
    "hoodie.kafka.coordinator.write.timeout.secs": "300",
    "hoodie.kafka.commit.empty": "false",
    # earliest, latest or {"0": 5}; needed where the table has rows and no offsets of this sink.
    "hoodie.kafka.start.offsets": "",
    "hoodie.kafka.on.expired": OnExpired.FAIL,
    "hoodie.kafka.buffer.max.bytes": str(64 << 20),
    "hoodie.kafka.partitions.per.task": "0",  # As many as it takes for the free slots when 0.
    "hoodie.sink.mode": SinkMode.APPEND,
    "hoodie.sink.format": ValueFormat.JSON,
    "hoodie.sink.key.format": KeyFormat.AUTO,
    "hoodie.sink.csv.columns": "",  # The columns of a line, in order; the table's when empty.
    "hoodie.sink.schema.source": SchemaSource.TABLE,
    "hoodie.sink.schema.file": "",
    "hoodie.sink.op.column": "",  # The field that says `d` or `delete` for rows to take away.
    "hoodie.sink.on.bad.record": OnBadRecord.DEAD_LETTER,
    "hoodie.sink.dead.letter.path": "",  # A directory outside the table; `<table>-dead-letters`.
    "hoodie.kafka.compaction.async.enable": "true",
    "hoodie.kafka.clustering.async.enable": "false",
    "hoodie.sink.graceful.timeout.secs": "60",
    # The few settings of a Kafka client that can be set; see `workers/sink/kafka`.
    "security.protocol": "",
    "sasl.mechanism": "",
    "sasl.username": "",
    "sasl.password.env": "",  # The environment variable that holds the password.
    "ssl.ca.location": "",
}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OFFSET_MAX = 2**63 - 2


@dataclass(frozen=True, slots=True)
class SinkConfig:
    sink_id: str
    topic: str
    bootstrap: str
    control_topic: str
    interval_s: int
    write_timeout_s: int
    commits_empty: bool
    start_offsets: str | Mapping[int, int]
    """earliest, latest, an offset for each partition, or nothing."""
    on_expired: OnExpired
    buffer_bytes_max: int
    partitions_per_task: int
    mode: SinkMode
    value_format: ValueFormat
    key_format: KeyFormat
    csv_columns: tuple[str, ...]
    schema_source: SchemaSource
    schema_file: str
    op_column: str
    on_bad_record: OnBadRecord
    dead_letter_path: str
    schedules_compaction: bool
    schedules_clustering: bool
    graceful_timeout_s: int
    client: tuple[tuple[str, str], ...]
    """Settings of Kafka clients that are not empty."""
    init_delay_s: float = 0.1
    """Hudi's START_COMMIT_INIT_DELAY_MS."""
    restart_delay_s: float = 0.5
    """Hudi's RESTART_COMMIT_DELAY_MS, after a transaction that failed."""


def sink_config(given: Mapping[str, str]) -> SinkConfig:
    """Raises InvalidInput naming the first key or value that is wrong."""
    values = known(given, SINK_OPTIONS, what="sink option")
    topic = _matching(values, "hoodie.kafka.topic", _TOPIC)
    values["hoodie.sink.id"] = values["hoodie.sink.id"] or topic[:100]
    source = choice(values, "hoodie.sink.schema.source", SchemaSource)
    if (source is SchemaSource.REGISTRY_FILE) != bool(values["hoodie.sink.schema.file"]):
        raise InvalidInput(
            "hoodie.sink.schema.source=registry_file and hoodie.sink.schema.file go together"
        )
    key_format = choice(values, "hoodie.sink.key.format", KeyFormat)
    if key_format is KeyFormat.AVRO and source is not SchemaSource.REGISTRY_FILE:
        raise InvalidInput(
            "hoodie.sink.key.format=avro needs hoodie.sink.schema.source=registry_file"
        )
    return SinkConfig(
        sink_id=_matching(values, "hoodie.sink.id", _ID),
        topic=topic,
        bootstrap=values["bootstrap.servers"],
        control_topic=_matching(values, "hoodie.kafka.control.topic", _TOPIC),
        interval_s=integer(values, "hoodie.kafka.commit.interval.secs", least=1, most=86_400),
        write_timeout_s=integer(
            values, "hoodie.kafka.coordinator.write.timeout.secs", least=1, most=86_400
        ),
        commits_empty=boolean(values, "hoodie.kafka.commit.empty"),
        start_offsets=_start_offsets(values["hoodie.kafka.start.offsets"]),
        on_expired=choice(values, "hoodie.kafka.on.expired", OnExpired),
        buffer_bytes_max=integer(
            values, "hoodie.kafka.buffer.max.bytes", least=1 << 20, most=4 << 30
        ),
        partitions_per_task=integer(
            values, "hoodie.kafka.partitions.per.task", least=0, most=10_000
        ),
        mode=choice(values, "hoodie.sink.mode", SinkMode),
        value_format=choice(values, "hoodie.sink.format", ValueFormat),
        key_format=key_format,
        csv_columns=tuple(
            one.strip() for one in values["hoodie.sink.csv.columns"].split(",") if one.strip()
        ),
        schema_source=source,
        schema_file=values["hoodie.sink.schema.file"],
        op_column=values["hoodie.sink.op.column"],
        on_bad_record=choice(values, "hoodie.sink.on.bad.record", OnBadRecord),
        dead_letter_path=values["hoodie.sink.dead.letter.path"],
        schedules_compaction=boolean(values, "hoodie.kafka.compaction.async.enable"),
        schedules_clustering=boolean(values, "hoodie.kafka.clustering.async.enable"),
        graceful_timeout_s=integer(values, "hoodie.sink.graceful.timeout.secs", least=1, most=3600),
        client=tuple(
            (key, values[key]) for key in SINK_OPTIONS if key.startswith(_CLIENT) and values[key]
        ),
    )


_CLIENT = ("security.", "sasl.", "ssl.")


def _matching(values: Mapping[str, str], key: str, grammar: re.Pattern[str]) -> str:
    if not grammar.fullmatch(values[key]):
        raise InvalidInput("missing, or not a name", key=key, given=values[key])
    return values[key]


def _start_offsets(text: str) -> str | Mapping[int, int]:
    if text in ("", "earliest", "latest"):
        return text
    try:
        given = json.loads(text)
        offsets = {int(partition): offset for partition, offset in given.items()}
    except (ValueError, AttributeError) as error:
        raise _not_offsets(text) from error
    if not all(type(one) is int and 0 <= one <= _OFFSET_MAX for one in offsets.values()):
        raise _not_offsets(text)
    return offsets


def _not_offsets(text: str) -> InvalidInput:
    return InvalidInput(
        'start offsets are earliest, latest or {"0": 17, "1": 4}',
        key="hoodie.kafka.start.offsets",
        given=text,
    )
