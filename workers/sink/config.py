"""The options of a sink, under Hudi's own names where Hudi has one.

SINK_OPTIONS lists every key that Sluice understands, with its default. Any other key is rejected,
because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput
from workers.json_text import read_json
from workers.options.option_values import parse_list
from workers.options.sink_keys import (
    BAD_KEY,
    BOOTSTRAP_KEY,
    BUFFER_KEY,
    CLUSTERING_KEY,
    COMPACTION_KEY,
    CONNECTION_KEY,
    CONTROL_KEY,
    CSV_KEY,
    EMPTY_KEY,
    EXPIRED_KEY,
    FILE_KEY,
    FORMAT_KEY,
    GRACE_KEY,
    ID_KEY,
    INTERVAL_KEY,
    KEY_FORMAT_KEY,
    LETTERS_KEY,
    MODE_KEY,
    OP_KEY,
    PER_TASK_KEY,
    SINK_OPTIONS,
    SOURCE_KEY,
    START_KEY,
    TIMEOUT_KEY,
    TOPIC_KEY,
    KeyFormat,
    OnBadRecord,
    OnExpired,
    SchemaSource,
    SinkMode,
    ValueFormat,
)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CONNECTION = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OFFSET_MAX = 2**63 - 2


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """The options of a sink, typed and checked. `sink_config` builds it; SINK_OPTIONS documents
    their meaning, bounds and defaults.
    """

    sink_id: str
    topic: str
    bootstrap: str
    control_topic: str
    interval_s: int
    write_timeout_s: int
    commits_empty: bool
    start_offsets: str | Mapping[int, int]
    """earliest, latest, an offset for each partition, or an empty text."""
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
    connection: str = ""
    """The name of a connection; then `bootstrap` is empty and so is `client`."""
    init_delay_s: float = 0.1
    """Hudi's START_COMMIT_INIT_DELAY_MS."""
    restart_delay_s: float = 0.5
    """Hudi's RESTART_COMMIT_DELAY_MS, after a transaction that failed."""

    @property
    def chooses_offsets(self) -> bool:
        """True if the start offsets may skip records that the topic has."""
        return self.start_offsets not in ("", "earliest")


def sink_config(options: Mapping[str, str]) -> SinkConfig:
    """Build the checked settings of a sink from its options. Raises InvalidInput, which names the
    first key or value that is wrong.
    """
    keys = SINK_OPTIONS
    values = keys.fill_defaults(options)
    topic = _get_matching(values, TOPIC_KEY, _TOPIC)
    values[ID_KEY] = values[ID_KEY] or topic[:100]
    source = keys.choice(values, SOURCE_KEY, SchemaSource)
    if (source is SchemaSource.REGISTRY_FILE) != bool(values[FILE_KEY]):
        raise InvalidInput(f"{SOURCE_KEY}=registry_file and {FILE_KEY} go together")
    key_format = keys.choice(values, KEY_FORMAT_KEY, KeyFormat)
    if key_format is KeyFormat.AVRO and source is not SchemaSource.REGISTRY_FILE:
        raise InvalidInput(f"{KEY_FORMAT_KEY}=avro needs {SOURCE_KEY}=registry_file")
    client = tuple(
        (key, values[key]) for key in SINK_OPTIONS if key.startswith(_CLIENT) and values[key]
    )
    connection = values[CONNECTION_KEY]
    if connection:
        _check_connection(connection, options, client)
    return SinkConfig(
        sink_id=_get_matching(values, ID_KEY, _ID),
        topic=topic,
        bootstrap="" if connection else values[BOOTSTRAP_KEY],
        control_topic=_get_matching(values, CONTROL_KEY, _TOPIC),
        interval_s=keys.integer(values, INTERVAL_KEY),
        write_timeout_s=keys.integer(values, TIMEOUT_KEY),
        commits_empty=keys.boolean(values, EMPTY_KEY),
        start_offsets=_parse_start_offsets(values[START_KEY]),
        on_expired=keys.choice(values, EXPIRED_KEY, OnExpired),
        buffer_bytes_max=keys.integer(values, BUFFER_KEY),
        partitions_per_task=keys.integer(values, PER_TASK_KEY),
        mode=keys.choice(values, MODE_KEY, SinkMode),
        value_format=keys.choice(values, FORMAT_KEY, ValueFormat),
        key_format=key_format,
        csv_columns=parse_list(values[CSV_KEY]),
        schema_source=source,
        schema_file=values[FILE_KEY],
        op_column=values[OP_KEY],
        on_bad_record=keys.choice(values, BAD_KEY, OnBadRecord),
        dead_letter_path=values[LETTERS_KEY],
        schedules_compaction=keys.boolean(values, COMPACTION_KEY),
        schedules_clustering=keys.boolean(values, CLUSTERING_KEY),
        graceful_timeout_s=keys.integer(values, GRACE_KEY),
        client=client,
        connection=connection,
    )


_CLIENT = ("security.", "sasl.", "ssl.")


def _check_connection(
    name: str, options: Mapping[str, str], client: tuple[tuple[str, str], ...]
) -> None:
    if not _CONNECTION.fullmatch(name):
        raise InvalidInput("invalid name of a connection", key=CONNECTION_KEY)
    own = [BOOTSTRAP_KEY] if options.get(BOOTSTRAP_KEY) else []
    if own := [*own, *(key for key, _ in client)]:
        raise InvalidInput(
            "a connection has its own brokers and credentials; remove these options",
            key=CONNECTION_KEY,
            given=own,
        )


def _get_matching(values: Mapping[str, str], key: str, grammar: re.Pattern[str]) -> str:
    if not grammar.fullmatch(values[key]):
        raise InvalidInput("missing, or not a name", key=key, given=values[key])
    return values[key]


def _parse_start_offsets(text: str) -> str | Mapping[int, int]:
    if text in ("", "earliest", "latest"):
        return text
    try:
        body = read_json(text)
        offsets = {int(partition): offset for partition, offset in body.items()}
    except (ValueError, AttributeError) as error:
        raise _build_offsets_error(text) from error
    if not all(type(offset) is int and 0 <= offset <= _OFFSET_MAX for offset in offsets.values()):
        raise _build_offsets_error(text)
    return offsets


def _build_offsets_error(text: str) -> InvalidInput:
    return InvalidInput(
        'start offsets are earliest, latest or {"0": 17, "1": 4}',
        key=START_KEY,
        given=text,
    )
