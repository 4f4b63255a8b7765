"""Messages between coordinator and participants: pure values and their JSON.

Each message names the epoch of the coordinator and the instant of its transaction. So a reader can
decide at any later time whether it still matters. Messages may be lost, repeated, delayed or
reordered: see `coordinator` and `participant`. `control_codec` turns them into records of the
control topic, and adds the sink and the table that they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from workers.clock import InstantTime
from workers.json_text import read_json

PROTOCOL_VERSION = 2
_INTEGER_MAX = 2**63


class Outcome(StrEnum):
    """How a participant's part of a transaction ended."""

    PREPARED = "PREPARED"
    """Its files are durable; the coordinator may commit them."""
    FAILED = "FAILED"
    NEEDS_SCHEMA = "NEEDS_SCHEMA"
    """Records bring fields that the table has no columns for yet."""


class ParticipantName(StrEnum):
    """States of a participant: RFC-32's names and two of our own."""

    IDLE = "IDLE"
    """In no transaction; its partition is paused."""
    OPEN = "OPEN"
    CLOSING = "CLOSING"
    """Received END; its writer makes its files durable."""
    PREPARED = "PREPARED"
    """Has reported, whatever the outcome, and waits for the decision."""
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class StartCommit:
    """Begin to read and write. Also ends any older transaction of a participant."""

    epoch: int
    instant: InstantTime
    sender: str
    offsets: Mapping[int, int]
    """First offset of each partition. The transaction has these partitions and no others."""
    members: Mapping[int, str]
    """The one participant of each partition that may write in this transaction."""
    schema: str
    """Avro JSON of the rows that are written."""
    read_at: InstantTime | str
    """Completion time of the newest commit that the transaction builds on; empty if none."""
    refused_fields: tuple[str, ...] = ()
    """Fields of records that the table rejects. They are left out and not requested again."""
    topic_id: str = ""
    cluster_id: str = ""
    """Ids of the topic and its cluster. Rows and dead letters record them."""


@dataclass(frozen=True, slots=True)
class EndCommit:
    """Stop reading, close the files, report."""

    epoch: int
    instant: InstantTime
    sender: str


@dataclass(frozen=True, slots=True)
class AckCommit:
    """The transaction is in the table."""

    epoch: int
    instant: InstantTime
    sender: str
    offsets: Mapping[int, int]
    ends_run: str = ""
    """Set to the run's id when the coordinator stops. No other transaction follows, so the
    participants of this run end too. Those of a run that was launched since do not.
    """


@dataclass(frozen=True, slots=True)
class Report:
    """Hudi's WRITE_STATUS: the result of one participant in one transaction."""

    epoch: int
    instant: InstantTime
    sender: str
    """The participant's id."""
    partition: int
    outcome: Outcome
    start: int
    end: int
    """The next offset to read."""
    records: int = 0
    gaps: int = 0
    """Offsets between start and end that the broker had no record for."""
    bad_records: int = 0
    left_out: int = 0
    """Records with fields for which the table has no column."""
    statuses: tuple[str, ...] = ()
    """A `WriteStatus` for each file, as JSON."""
    letters: tuple[str, ...] = ()
    """A `DeadLetterFile` for each file of bad records, as JSON."""
    max_timestamp_ms: int = 0
    tombstones: int = 0
    """Deletes by the key of a record without a value."""
    tombstones_unmet: int = 0
    """Tombstones whose key has no row."""
    tombstones_not_looked_for: int = 0
    """Tombstones that were not checked for a row."""
    reason: str = ""
    """Why, when it failed."""
    new_fields: str = ""
    """Avro JSON of the fields that are needed; empty unless NEEDS_SCHEMA."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit, not even an offset."""
        return self.start == self.end and not (self.statuses or self.letters)


@dataclass(frozen=True, slots=True)
class Ready:
    """Our own: the state of a participant, sent every few seconds and after each transition."""

    epoch: int
    """The newest epoch that it has received."""
    instant: InstantTime | str
    """The transaction it is in or was in last; empty if none."""
    sender: str
    partition: int
    state: ParticipantName
    offset: int
    """The next offset it would write: the local one."""
    since_ms: int
    """Creation time. If a partition has two participants, the younger one counts."""


CoordinatorMessage = StartCommit | EndCommit | AckCommit
ParticipantMessage = Report | Ready
Message = CoordinatorMessage | ParticipantMessage

TYPES: dict[str, type[Message]] = {
    "START_COMMIT": StartCommit,
    "END_COMMIT": EndCommit,
    "ACK_COMMIT": AckCommit,
    "WRITE_STATUS": Report,
    "READY": Ready,
}
_NAMES: dict[type[Message], str] = {kind: name for name, kind in TYPES.items()}


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """An event of both machines."""

    message: Message
    now_ms: int


@dataclass(frozen=True, slots=True)
class Tick:
    """An event of both machines: time has passed. Several a second are enough."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Send:
    """An effect of both machines: publish to all workers. The message may get lost."""

    message: Message


class Ignored(StrEnum):
    """Why a message had no effect."""

    SIZE = "size"
    SIGNATURE = "signature"
    MALFORMED = "malformed"
    CHUNK = "chunk"
    """Part of a message whose other parts never came."""
    VERSION = "version"
    TYPE = "type"
    TABLE = "table"
    SINK = "sink"
    EPOCH = "epoch"
    """From a coordinator that another one has replaced."""
    INSTANT = "instant"
    """About another transaction."""
    SENDER = "sender"
    """Not from or not to the transaction's participant of this partition."""
    OFFSETS = "offsets"
    """A report that does not begin where the transaction began, or goes back."""
    STATE = "state"
    """Came when it no longer mattered, or too early."""


@dataclass(frozen=True, slots=True)
class NotAMessage:
    """A record of the control topic that means nothing to this sink."""

    cause: Ignored
    detail: str = field(default="", compare=False)


def get_type_name(message: Message) -> str:
    """Return RFC-32's name of the message, as in the JSON. READY is our own."""
    return _NAMES[type(message)]


def to_json(message: Message, *, sink_id: str, table_id: str) -> bytes:
    """Encode the message, its sink and its table as compact JSON, which `from_json` reads."""
    body = {field_.name: getattr(message, field_.name) for field_ in fields(message)}
    header = {
        "protocol_version": PROTOCOL_VERSION,
        "type": get_type_name(message),
        "sink_id": sink_id,
        "table_id": table_id,
    }
    return json.dumps(header | body, separators=(",", ":")).encode()


def from_json(content: bytes, *, sink_id: str, table_id: str) -> Message | NotAMessage:
    """Decode a message. Return NotAMessage with the cause if the bytes are not a message for this
    sink. Every field must be present, with a value of its own type: a guessed value would be
    committed later.
    """
    try:
        body = read_json(content)
    except ValueError as error:
        return NotAMessage(Ignored.MALFORMED, str(error))
    if not isinstance(body, dict):
        return NotAMessage(Ignored.MALFORMED, "not an object")
    if body.get("protocol_version") != PROTOCOL_VERSION:
        return NotAMessage(Ignored.VERSION, str(body.get("protocol_version")))
    kind = TYPES.get(str(body.get("type")))
    if kind is None:
        return NotAMessage(Ignored.TYPE, str(body.get("type")))
    if body.get("table_id") != table_id:
        return NotAMessage(Ignored.TABLE, str(body.get("table_id")))
    if body.get("sink_id") != sink_id:
        return NotAMessage(Ignored.SINK, str(body.get("sink_id")))
    try:
        return kind(**{name: read(body[name]) for name, read in _READERS[kind]})
    except (KeyError, ValueError) as error:
        return NotAMessage(Ignored.MALFORMED, f"{_NAMES[kind]}: {error!r}")


def _parse_integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _INTEGER_MAX:
        raise ValueError(f"not a number from 0 on: {value!r}")
    return value


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not a text: {value!r}")
    return value


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"neither true nor false: {value!r}")
    return value


def _parse_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"not a list: {value!r}")
    return tuple(_parse_text(item) for item in value)


def _parse_by_partition(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def by_partition(value: Any) -> dict[int, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"not by partition: {value!r}")
        return {_parse_integer(int(key)): read(item) for key, item in value.items()}

    return by_partition


_BY_TYPE: dict[str, Callable[[Any], Any]] = {
    "int": _parse_integer,
    "str": _parse_text,
    "bool": _parse_boolean,
    "InstantTime": _parse_text,
    "InstantTime | str": _parse_text,
    "tuple[str, ...]": _parse_texts,
    "Mapping[int, int]": _parse_by_partition(_parse_integer),
    "Mapping[int, str]": _parse_by_partition(_parse_text),
    "Outcome": Outcome,
    "ParticipantName": ParticipantName,
}
_READERS = {
    kind: [(field_.name, _BY_TYPE[str(field_.type)]) for field_ in fields(kind)]
    for kind in TYPES.values()
}
