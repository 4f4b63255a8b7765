"""Rows of a participant that wait to be written, and what it takes to make files of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from workers.errors import BadRows, InvalidInput
from workers.sink.batch import MOMENTS_END_MS, BadRecord, DecodedBatch, Offsets, Tombstone
from workers.sink.letters import refused_rows
from workers.sink.source import Source
from workers.sink.tables import COORDINATES, TIMESTAMP
from workers.sink.unmet_deletes import TombstoneCounts
from workers.write.context import WriteContext
from workers.write.dead_letters import BAD_ROWS_MAX, ERROR_COLUMN, ROW_COLUMN
from workers.write.groups import RowGroup
from workers.write.sifting import Prepare, sift

_ROW_BYTES = 16
"""Offset and time of a row."""
_TOMBSTONE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Arrived:
    """Rows in the order of their offsets."""

    rows: pa.Table
    offsets: Offsets
    timestamps_ms: Offsets

    def take(self, positions: Offsets) -> Arrived:
        """The rows at these positions, in the order of the positions."""
        return Arrived(
            self.rows.take(positions),
            self.offsets[positions],
            self.timestamps_ms[positions],
        )


@dataclass(slots=True)
class PendingRows:
    """Decoded batches since the last flush, and about how many bytes of memory they hold."""

    batches: list[DecodedBatch] = field(default_factory=list)
    bytes: int = 0

    def add(self, batch: DecodedBatch) -> None:
        """Keep the batch's rows and tombstones; its bad records are the caller's."""
        if not (len(batch.offsets) or batch.tombstones):
            return
        assert batch.rows.num_rows == len(batch.offsets) == len(batch.timestamps_ms), batch
        self.batches.append(batch)
        self.bytes += batch.rows.nbytes + _ROW_BYTES * len(batch.offsets)
        self.bytes += sum(_TOMBSTONE_BYTES + len(one.key or b"") for one in batch.tombstones)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a row nor a tombstone."""
        return not self.batches

    @property
    def arrived(self) -> Arrived:
        """Rows of all batches; where one batch has a column that others lack it is null there."""
        rows = pa.concat_tables([one.rows for one in self.batches], promote_options="default")
        return Arrived(
            rows,
            np.concatenate([one.offsets for one in self.batches]),
            np.concatenate([one.timestamps_ms for one in self.batches]),
        )

    @property
    def tombstones(self) -> list[Tombstone]:
        """The tombstones of all batches, in the order of their offsets."""
        return [one for batch in self.batches for one in batch.tombstones]


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows ready to be written, by file group, and those that the table cannot hold."""

    groups: Iterator[RowGroup]
    bad: tuple[BadRecord, ...] = ()


class Preparer(Protocol):
    """Makes rows to write from pending ones, for one participant in one transaction."""

    def prepared(self, held: PendingRows) -> PreparedRows:
        """The rows to write, by file group. Raises BadRows where there are no dead letters."""

    def tombstones(self) -> TombstoneCounts:
        """Counts of all tombstones that were prepared."""


@dataclass(frozen=True, slots=True)
class SiftedRows:
    """Rows as `prepare` made them, in the order of their offsets, and those that it refused."""

    prepared: pa.Table
    offsets: Offsets
    """Of the prepared rows."""
    bad: tuple[BadRecord, ...]


def sift_rows(context: WriteContext, arrived: Arrived, prepare: Prepare) -> SiftedRows:
    """Prepare the rows; those that the table cannot hold are told apart, however many.

    Raises InvalidInput where there are no dead letters, and for what is wrong with all rows.
    """
    parts, causes = _sifted(context, arrived.rows, prepare)
    if not causes:
        return SiftedRows(parts, arrived.offsets, ())
    positions = np.array(sorted(causes), np.int64)
    bad = arrived.take(positions)
    row_causes = [causes[int(at)] for at in positions]
    letters = refused_rows(bad.rows, bad.offsets.tolist(), bad.timestamps_ms.tolist(), row_causes)
    return SiftedRows(parts, np.delete(arrived.offsets, positions), tuple(letters))


def _sifted(
    context: WriteContext, rows: pa.Table, prepare: Prepare
) -> tuple[pa.Table, dict[int, str]]:
    try:
        return _sift_once(context, rows, prepare)
    except BadRows:
        raise
    except InvalidInput:
        if not context.options.dead_letter_path or rows.num_rows <= BAD_ROWS_MAX:
            raise
    # Perhaps more bad rows than a batch may have; what is wrong as such is refused again here.
    parts: list[pa.Table] = []
    causes: dict[int, str] = {}
    for start in range(0, rows.num_rows, BAD_ROWS_MAX):
        part, part_causes = _sift_once(context, rows.slice(start, BAD_ROWS_MAX), prepare)
        parts.append(part)
        causes |= {start + at: why for at, why in part_causes.items()}
    return pa.concat_tables(parts), causes


def _sift_once(
    context: WriteContext, rows: pa.Table, prepare: Prepare
) -> tuple[pa.Table, dict[int, str]]:
    sifted = sift(context, rows, is_numbered=True, prepared_by=prepare)
    if sifted.letters is None:
        return sifted.prepared, {}
    at: list[Any] = sifted.letters.column(ROW_COLUMN).to_pylist()
    why: list[Any] = sifted.letters.column(ERROR_COLUMN).to_pylist()
    return sifted.prepared, dict(zip(at, why, strict=True))


def with_coordinates(context: WriteContext, arrived: Arrived, source: Source) -> pa.Table:
    """With the coordinates that the table has columns for."""
    rows = arrived.rows
    for column, values in _coordinates(arrived, source):
        if column.name in context.schema.field_names and column.name not in rows.column_names:
            rows = rows.append_column(column, values)
    return rows


def _coordinates(arrived: Arrived, source: Source) -> Iterator[tuple[Any, Any]]:
    count = arrived.rows.num_rows
    times_ms = arrived.timestamps_ms
    is_none = (times_ms < 0) | (times_ms >= MOMENTS_END_MS)
    moments = pa.array(np.where(is_none, 0, times_ms) * 1000, mask=is_none)
    values = [
        pa.repeat(pa.scalar(source.cluster_id), count),
        pa.repeat(pa.scalar(source.topic), count),
        pa.repeat(pa.scalar(source.topic_id), count),
        pa.repeat(pa.scalar(source.partition, pa.int32()), count),
        pa.array(arrived.offsets),
        moments.cast(COORDINATES.field(TIMESTAMP).type),
    ]
    return zip(COORDINATES, values, strict=True)
