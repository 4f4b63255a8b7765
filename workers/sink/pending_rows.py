"""Pending rows of a participant, and their preparation for the files of a flush."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from workers.errors import BadRows, InvalidInput
from workers.sink.batch import MOMENTS_END_MS, BadRecord, DecodedBatch, Offsets, Source, Tombstone
from workers.sink.dead_letters import to_bad_records
from workers.sink.tables import COORDINATES, TIMESTAMP
from workers.sink.unmatched_tombstones import TombstoneCounts
from workers.write.context import WriteContext
from workers.write.dead_letters import BAD_ROWS_MAX, ERROR_COLUMN, ROW_COLUMN
from workers.write.groups import RowGroup
from workers.write.row_validation import Prepare, split_bad_rows

_ROW_BYTES = 16
"""Memory for the offset and the time of a row."""
_TOMBSTONE_BYTES = 200


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows in the order of their offsets, with the times of their records."""

    rows: pa.Table
    offsets: Offsets
    timestamps_ms: Offsets

    def take(self, positions: Offsets) -> ArrivedRows:
        """Return the rows at these positions, in the order of the positions."""
        return ArrivedRows(
            self.rows.take(positions),
            self.offsets[positions],
            self.timestamps_ms[positions],
        )


@dataclass(slots=True)
class PendingRows:
    """Decoded batches since the last flush, and the approximate bytes of memory that they use."""

    batches: list[DecodedBatch] = field(default_factory=list)
    bytes: int = 0

    def add(self, batch: DecodedBatch) -> None:
        """Add the batch's rows and tombstones. The caller handles its bad records."""
        if not (len(batch.offsets) or batch.tombstones):
            return
        assert batch.rows.num_rows == len(batch.offsets) == len(batch.timestamps_ms), batch
        self.batches.append(batch)
        self.bytes += batch.rows.nbytes + _ROW_BYTES * len(batch.offsets)
        self.bytes += sum(
            _TOMBSTONE_BYTES + len(tombstone.key or b"") for tombstone in batch.tombstones
        )

    @property
    def is_empty(self) -> bool:
        """True if there is neither a row nor a tombstone."""
        return not self.batches

    @property
    def arrived(self) -> ArrivedRows:
        """Rows of all batches. A column that a batch lacks is null in its rows."""
        rows = pa.concat_tables([batch.rows for batch in self.batches], promote_options="default")
        return ArrivedRows(
            rows,
            np.concatenate([batch.offsets for batch in self.batches]),
            np.concatenate([batch.timestamps_ms for batch in self.batches]),
        )

    @property
    def tombstones(self) -> list[Tombstone]:
        """The tombstones of all batches, in the order of their offsets."""
        return [tombstone for batch in self.batches for tombstone in batch.tombstones]


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows ready to be written, by file group, and the rows that the table rejects."""

    groups: Iterator[RowGroup]
    bad: tuple[BadRecord, ...] = ()


class Preparer(Protocol):
    """Converter of pending rows to rows to write, for one participant in one transaction."""

    def prepare_rows(self, pending: PendingRows) -> PreparedRows:
        """Return the rows to write, by file group. Raises BadRows without dead letters."""

    def count_tombstones(self) -> TombstoneCounts:
        """Return the counts of all tombstones that were prepared."""


@dataclass(frozen=True, slots=True)
class ValidatedRows:
    """Prepared rows in the order of their offsets, and the rows that `prepare` rejected."""

    prepared: pa.Table
    offsets: Offsets
    """Offset of each prepared row."""
    bad: tuple[BadRecord, ...]


def validate_rows(context: WriteContext, arrived: ArrivedRows, prepare: Prepare) -> ValidatedRows:
    """Prepare the rows, and separate any number of rows that the table rejects.

    Raises InvalidInput without dead letters, or if all rows are invalid.
    """
    parts, causes = _validate_in_parts(context, arrived.rows, prepare)
    if not causes:
        return ValidatedRows(parts, arrived.offsets, ())
    positions = np.array(sorted(causes), np.int64)
    bad = arrived.take(positions)
    row_causes = [causes[int(at)] for at in positions]
    letters = to_bad_records(bad.rows, bad.offsets.tolist(), bad.timestamps_ms.tolist(), row_causes)
    return ValidatedRows(parts, np.delete(arrived.offsets, positions), tuple(letters))


def _validate_in_parts(
    context: WriteContext, rows: pa.Table, prepare: Prepare
) -> tuple[pa.Table, dict[int, str]]:
    try:
        return _validate_part(context, rows, prepare)
    except BadRows:
        raise
    except InvalidInput:
        if not context.options.dead_letter_path or rows.num_rows <= BAD_ROWS_MAX:
            raise
    # There may be more bad rows than a batch allows. Invalid input is rejected again here.
    parts: list[pa.Table] = []
    causes: dict[int, str] = {}
    for start in range(0, rows.num_rows, BAD_ROWS_MAX):
        part, part_causes = _validate_part(context, rows.slice(start, BAD_ROWS_MAX), prepare)
        parts.append(part)
        causes |= {start + at: why for at, why in part_causes.items()}
    return pa.concat_tables(parts), causes


def _validate_part(
    context: WriteContext, rows: pa.Table, prepare: Prepare
) -> tuple[pa.Table, dict[int, str]]:
    sifted = split_bad_rows(context, rows, is_numbered=True, prepared_by=prepare)
    if sifted.letters is None:
        return sifted.prepared, {}
    at: list[Any] = sifted.letters.column(ROW_COLUMN).to_pylist()
    why: list[Any] = sifted.letters.column(ERROR_COLUMN).to_pylist()
    return sifted.prepared, dict(zip(at, why, strict=True))


def add_coordinates(context: WriteContext, arrived: ArrivedRows, source: Source) -> pa.Table:
    """Return the rows with the coordinates for which the table has columns."""
    rows = arrived.rows
    for column, values in _build_coordinates(arrived, source):
        if column.name in context.schema.field_names and column.name not in rows.column_names:
            rows = rows.append_column(column, values)
    return rows


def _build_coordinates(arrived: ArrivedRows, source: Source) -> Iterator[tuple[Any, Any]]:
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
