"""What a participant reads of its partition: raw records, then rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets = npt.NDArray[np.int64]
MOMENTS_END_MS = 253_402_300_800_000
"""Kafka keeps any number as a record's time; from here on it is no time that a table can hold."""
Headers = tuple[tuple[str, bytes | None], ...]


class RecordParts(Protocol):
    """What of a record is looked at only where it is bad."""

    def key(self) -> bytes | None:
        """None for a record without one."""
        ...

    def headers(self) -> Any:
        """Pairs of a name and bytes; None for none."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Records of one partition in the order of their offsets, as the consumer gave them."""

    values: Sequence[bytes | None]
    """None is a tombstone."""
    keys: Sequence[bytes | None]
    """Empty where the sink does not look at keys."""
    offsets: Offsets
    timestamps_ms: Offsets
    next_offset: int
    """Where the consumer goes on: past the last record, and past what the broker left out."""
    seeks: int
    """How often the consumer had been sent to an offset when it read these."""
    records: Sequence[RecordParts] = ()
    """The records themselves; what is no letter needs no more of them than stands above."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that the table cannot take, as a dead letter will hold it, and why it cannot."""

    offset: int
    key: bytes | None
    value: bytes | None
    cause: str
    timestamp_ms: int | None = None
    headers: Headers = ()
    is_decoded: bool = False
    """Then the value is the JSON of the row that was decoded, not what the record had."""


class Tombstone(NamedTuple):
    """A record without a value."""

    offset: int
    key: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """What a decoder made of a `RawBatch`. `rows`, `offsets` and `timestamps_ms` go together, in
    the order of offsets; bad records and tombstones stand apart, each with its own offset.
    """

    rows: pa.Table
    """Payload columns only, under the types of the schema that was asked for."""
    offsets: Offsets
    """Of each row."""
    timestamps_ms: Offsets
    bad: tuple[BadRecord, ...] = ()
    tombstones: Sequence[Tombstone] = ()
    """They are not among the rows."""
    new_fields: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Fields that records bring and the schema has not; found only where they are asked for."""
    left_out: int = 0
    """Records that brought fields which are in no column."""
