"""What a participant reads of its partition: raw records, then rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets = npt.NDArray[np.int64]


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

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class BadRecord:
    offset: int
    key: bytes | None
    value: bytes | None
    cause: str
    timestamp_ms: int | None = None


class Tombstone(NamedTuple):
    """A record without a value."""

    offset: int
    key: bytes | None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DecodedBatch:
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
