"""A whole write in one process, without Spark: the same begin, files and commit as every other
writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome, Committed
from workers.concurrency.proposal import Condition
from workers.concurrency.read_set import ReadSet
from workers.errors import EarlyConflict
from workers.options.write_options import WriteOptions, write_options
from workers.schema.conversion import decode_columns, decode_schema
from workers.table.table import Table
from workers.write.batches import (
    BatchedWrite,
    RowBatches,
    RowStream,
    Spill,
    StoredBatches,
    read_up_to,
)
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.handles import write_file_groups
from workers.write.read_set import build_read_set
from workers.write.replacement import warn_of_no_rows
from workers.write.request import WriteRequest
from workers.write.retry import with_retries
from workers.write.row_validation import split_bad_rows
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus

ArrowData = pa.Table | pa.RecordBatch | pa.RecordBatchReader


def write_arrow(
    table: Table,
    data: ArrowData | RowBatches | None,
    request: WriteRequest,
    options: Mapping[str, str],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write and commit rows; None for an operation that takes none. `condition` is asked under the
    table lock, before each commit. Memory holds at most `sluice.write.memory` of the rows of a
    reader, or of batches that can be read more than once.

    Raises InvalidInput before anything is written, LockTimeout and MarkerRefused with everything
    rolled back.
    """
    typed = write_options(options, table.config.get_mode(request.operation))
    with Spill() as spill:
        rows = _take_rows(data, spill, typed.memory_bytes)
        if rows is None:
            return write_rows_from(table, None, request, typed, lambda _: None, condition)
        row_count = 0

        def find(_: WriteContext) -> pa.Table | RowStream:
            nonlocal row_count
            if isinstance(rows, pa.Table):
                row_count = rows.num_rows
                return rows
            batch = read_up_to(rows, typed.memory_bytes)
            row_count = batch.num_rows if isinstance(batch, pa.Table) else 1
            return batch

        schema = rows.schema if isinstance(rows, pa.Table) else decode_schema(rows.schema)
        outcome = write_rows_from(table, schema, request, typed, find, condition)
    if not isinstance(outcome, Committed):
        return outcome
    warnings = warn_of_no_rows(request.operation, table.config, row_count)
    return replace(outcome, warnings=(*outcome.warnings, *warnings))


def _take_rows(
    data: ArrowData | RowBatches | None, spill: Spill, memory_bytes: int
) -> pa.Table | RowBatches | None:
    """Return rows that every attempt can read: those of a reader stay in memory, or go to disk."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        batches: list[pa.RecordBatch] = []
        bytes_held = 0
        for batch in data:
            batches.append(batch)
            bytes_held += batch.nbytes
            if bytes_held > memory_bytes:
                return StoredBatches(batches, data, spill)
        data = pa.Table.from_batches(batches, schema=data.schema)
    return decode_columns(data) if isinstance(data, pa.Table) else data


def write_rows_from(
    table: Table,
    schema: pa.Schema | None,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], pa.Table | RowStream | None],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write what `find` returns for the snapshot that the write starts from, under `schema`; each
    attempt calls it again.

    Raises as `write_arrow`, and as `find` with everything rolled back.
    """
    return with_retries(
        table,
        options,
        lambda number: write_once(
            table, schema, request.for_attempt(number), options, find, condition
        ),
    )


def write_once(
    table: Table,
    schema: pa.Schema | None,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], pa.Table | RowStream | None],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write as `write_rows_from`, in one attempt. Raises as `write_rows_from`."""
    transaction = WriteClient(table, options).begin(schema, request)
    with Spill() as spill:
        try:
            statuses: list[WriteStatus] = []
            letters: list[DeadLetterFile] = []
            context, task = transaction.context, TaskIds()
            batch = find(context)
            if batch is None:
                reads = ReadSet()
            elif isinstance(batch, RowStream):
                batched = BatchedWrite(context, table.storage, spill)
                reads = batched.run(batch)
                statuses, letters = batched.statuses, batched.letters
            else:
                sifted = split_bad_rows(context, batch, is_numbered=True)
                reads = build_read_set(context, sifted.prepared, (), table.storage)
                transaction.declare_reads(reads)
                statuses = write_file_groups(context, sifted.prepared, task, table.storage)
                letters = sifted.write_dead_letters(context, task, table.storage)
            transaction.declare_reads(reads)
        except EarlyConflict:
            return transaction.lose_early()
        except Exception as error:
            transaction.fail(error)
            raise
        return transaction.commit(statuses, letters, condition)
