"""Batches of a participant's partition: raw records, then decoded rows, and the origin of their
records, which is cluster, topic, partition and attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.write.status import TaskIds

Offsets = npt.NDArray[np.int64]
MOMENTS_END_MS = 253_402_300_800_000
"""First time that a table cannot store. Kafka stores any number as a record's time."""
Headers = tuple[tuple[str, bytes | None], ...]


class RecordParts(Protocol):
    """Parts of a record that are read only for a dead letter."""

    def key(self) -> bytes | None:
        """Return the key, or None for a record without a key."""
        ...

    def headers(self) -> Any:
        """Return pairs of name and bytes, or None for a record without headers."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Records of one partition in the order of their offsets, as the consumer returned them."""

    values: Sequence[bytes | None]
    """None is a tombstone."""
    keys: Sequence[bytes | None]
    """Empty if the sink does not read keys."""
    offsets: Offsets
    timestamps_ms: Offsets
    next_offset: int
    """Where the consumer continues: past the last record and past offsets without a record."""
    seeks: int
    """Number of seeks of the consumer before it read these records."""
    records: Sequence[RecordParts] = ()
    """The records themselves. Only dead letters need more of them than the fields above."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that the table rejects, with the content of its dead letter and the cause."""

    offset: int
    key: bytes | None
    value: bytes | None
    cause: str
    timestamp_ms: int | None = None
    headers: Headers = ()
    is_decoded: bool = False
    """Whether the value is the JSON of the decoded row instead of the record's value."""


class Tombstone(NamedTuple):
    """A record without a value."""

    offset: int
    key: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """Result of decoding a `RawBatch`. `rows`, `offsets` and `timestamps_ms` have the same length
    and the order of offsets. Bad records and tombstones are separate, each with its own offset.
    """

    rows: pa.Table
    """Payload columns only, with the types of the requested schema."""
    offsets: Offsets
    """Offset of each row."""
    timestamps_ms: Offsets
    bad: tuple[BadRecord, ...] = ()
    tombstones: Sequence[Tombstone] = ()
    """Not included in the rows."""
    new_fields: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Fields of records that the schema lacks. Empty unless the decoder infers fields."""
    left_out: int = 0
    """Number of records with fields that are in no column."""


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a participant's records, for rows, dead letters and file names."""

    topic: str
    partition: int
    participant: str = ""
    """Unique to the attempt, which makes its file names unique."""
    topic_id: str = ""
    """The broker's id: a topic that was deleted and created again has another."""
    cluster_id: str = ""
    """Two clusters may have topics of one name."""

    @property
    def task(self) -> TaskIds:
        """Numbers in the file names of this attempt. Another attempt has other numbers."""
        digest = hashlib.sha256(self.participant.encode()).digest()
        numbers = [int.from_bytes(digest[at : at + 4]) >> 1 for at in (0, 4)]
        return TaskIds(self.partition, stage=numbers[0], attempt=numbers[1])
