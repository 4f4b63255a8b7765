"""Writer of a participant in one transaction: from decoded batches to log files and dead letters.

Rows are buffered until they fill a quarter of the buffer. Then they are written to log files, one
for each file group. Each flush has a higher version, so later flushes win. File names are unique to
the attempt. Files become visible only when a commit includes the statuses of `close`. `drop`
deletes no file, because a participant cannot detect whether the transaction was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from workers.errors import BadRecords, InvalidInput
from workers.options.sink_keys import OnBadRecord, SinkMode
from workers.sink.append_mode import AppendPreparer
from workers.sink.batch import MOMENTS_END_MS, BadRecord, DecodedBatch, Source
from workers.sink.config import SinkConfig
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.pending_rows import PendingRows, Preparer
from workers.sink.unmatched_tombstones import NO_TOMBSTONES, TombstoneCounts
from workers.sink.upsert_mode import UpsertPreparer
from workers.storage.base import Storage
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.handles import write_row_groups
from workers.write.row_validation import ValidatedRows
from workers.write.status import DeadLetterFile, WriteStatus

_SHARE_HELD = 4
"""Share of the buffer for rows: writing files needs several times the memory of the rows."""
_VERSIONS_EACH = 1 << 14
"""Log versions of each partition in upsert mode. Hudi's versions have 31 bits."""
_PARTITIONS_MAX = (1 << 31) // _VERSIONS_EACH
_LETTERS_MAX = 10_000
"""Most dead letters in memory. More are written to a file before the end."""


@dataclass(frozen=True, slots=True)
class WriterResult:
    """Result of a participant's transaction, for its report."""

    statuses: tuple[WriteStatus, ...]
    letters: tuple[DeadLetterFile, ...]
    records: int
    """Number of all records: rows, deletes and bad records."""
    bad_records: int
    left_out: int
    """Number of records with fields that are in no column."""
    max_timestamp_ms: int | None
    tombstones: TombstoneCounts = NO_TOMBSTONES


class SinkWriter:
    """Writer of one participant in one transaction. Not thread-safe. After an error only `drop` may
    be called.
    """

    def __init__(
        self, context: WriteContext, config: SinkConfig, source: Source, storage: Storage
    ) -> None:
        self._context = context
        self._config = config
        self._source = source
        self._storage = storage
        self._pending = PendingRows()
        self._preparer: Preparer = (
            AppendPreparer(context, source)
            if config.mode is SinkMode.APPEND
            else UpsertPreparer(context, config, source, storage)
        )
        self._flush_bytes = config.buffer_bytes_max // _SHARE_HELD
        self._task = source.task
        self._bad: list[BadRecord] = []
        self._statuses: list[WriteStatus] = []
        self._letters: list[DeadLetterFile] = []
        self._flushes = 0
        self._rows_written = 0
        self._records = 0
        self._left_out = 0
        self._max_timestamp_ms = -1

    @property
    def has_rows(self) -> bool:
        """True if any record was added. A transaction without records is empty."""
        return self._records > 0

    def add(self, batch: DecodedBatch, from_offset: int = 0) -> None:
        """Add the batch without records below `from_offset`, which are in the table already.

        Without dead letters, raises BadRecords for a record that cannot be decoded and BadRows for
        a row that the table rejects. Raises InstantRolledBack, MarkerRefused,
        StorageFailed.
        """
        batch = _drop_before(batch, from_offset)
        self._records += len(batch.offsets) + len(batch.tombstones) + len(batch.bad)
        self._left_out += batch.left_out
        times_ms = batch.timestamps_ms[batch.timestamps_ms < MOMENTS_END_MS]
        newest = int(times_ms.max()) if len(times_ms) else -1
        self._max_timestamp_ms = max(self._max_timestamp_ms, newest)
        self._collect_bad_records(batch.bad)
        self._pending.add(batch)
        if self._pending.bytes >= self._flush_bytes:
            self._flush()

    def close(self) -> WriterResult:
        """Write the buffered rows. All files are durable when this returns. Raises as `add`."""
        self._flush()
        self._write_dead_letters()
        newest = self._max_timestamp_ms
        return WriterResult(
            statuses=tuple(self._statuses),
            letters=tuple(self._letters),
            records=self._records,
            bad_records=sum(file.rows for file in self._letters),
            left_out=self._left_out,
            max_timestamp_ms=newest if newest >= 0 else None,
            tombstones=self._preparer.count_tombstones(),
        )

    def drop(self) -> None:
        """Drop the buffered rows. Rollback of the transaction deletes its uncommitted files."""
        self._pending = PendingRows()
        self._bad = []

    def _flush(self) -> None:
        if self._pending.is_empty:
            return
        pending, self._pending = self._pending, PendingRows()
        prepared = self._preparer.prepare_rows(pending)
        self._collect_bad_records(prepared.bad)
        self._flushes += 1
        self._task = replace(self._task, file_version=self._next_version())
        groups = self._number_groups(prepared.groups)
        self._statuses += write_row_groups(self._context, groups, self._task, self._storage)

    def _next_version(self) -> int:
        """Return the version of the next log file. Within a commit, the highest version wins.

        In upsert mode two partitions may have rows with the same key, which are in the same file
        group. Then the higher partition wins, regardless of the number of flushes.
        """
        if self._config.mode is SinkMode.APPEND:
            return self._flushes
        partition = self._source.partition
        if partition >= _PARTITIONS_MAX or self._flushes >= _VERSIONS_EACH:
            raise InvalidInput(
                "more log files than Hudi can number; raise hoodie.kafka.buffer.max.bytes, or "
                "commit more often",
                partition=partition,
                files=self._flushes,
            )
        return partition * _VERSIONS_EACH + self._flushes

    def _number_groups(self, groups: Iterator[RowGroup]) -> Iterator[RowGroup]:
        """Yield the groups with sequence numbers above those of earlier flushes."""
        before = self._rows_written
        for group in groups:
            self._rows_written += group.rows.num_rows
            yield replace(group, first_row=before + group.first_row)

    def _collect_bad_records(self, bad: tuple[BadRecord, ...]) -> None:
        if not bad:
            return
        if self._config.on_bad_record is OnBadRecord.FAIL:
            first = min(bad, key=lambda record: record.offset)
            raise BadRecords(
                "a record was rejected, and the sink stops at bad records",
                topic=self._source.topic,
                partition=self._source.partition,
                offset=first.offset,
                cause=first.cause,
                records=len(bad),
            )
        self._bad += bad
        if len(self._bad) >= _LETTERS_MAX:
            self._write_dead_letters()

    def _write_dead_letters(self) -> None:
        if not self._bad:
            return
        bad, self._bad = self._bad, []
        letters = dead_letters_to_arrow(self._source, bad)
        sifted = ValidatedRows(letters.slice(0, 0), letters)
        self._letters += sifted.write_dead_letters(
            self._context, self._task, self._storage, part=len(self._letters)
        )


def _drop_before(batch: DecodedBatch, offset: int) -> DecodedBatch:
    """Return the batch without the records below `offset`."""
    if offset <= 0:
        return batch
    first = int(np.searchsorted(batch.offsets, offset))
    return replace(
        batch,
        rows=batch.rows.slice(first),
        offsets=batch.offsets[first:],
        timestamps_ms=batch.timestamps_ms[first:],
        bad=tuple(record for record in batch.bad if record.offset >= offset),
        tombstones=tuple(record for record in batch.tombstones if record.offset >= offset),
    )
