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
from workers.schema.conversion import decode_columns
from workers.table.table import Table
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.handles import write_file_groups
from workers.write.read_set import build_read_set
from workers.write.replacing import warn_of_no_rows
from workers.write.request import WriteRequest
from workers.write.retrying import with_retries
from workers.write.sifting import sift
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus

ArrowData = pa.Table | pa.RecordBatch | pa.RecordBatchReader


def write_arrow(
    table: Table,
    data: ArrowData | None,
    request: WriteRequest,
    options: Mapping[str, str],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write and commit one batch; None for an operation that takes no rows. `condition` is asked
    under the table lock, before each commit.

    Raises InvalidInput before anything is written, LockTimeout and MarkerRefused with everything
    rolled back.
    """
    rows = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    batch = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    batch = decode_columns(batch) if batch is not None else None
    schema = batch.schema if batch is not None else None
    typed = write_options(options, table.config.mode_of(request.operation))
    outcome = write_rows_from(table, schema, request, typed, lambda _: batch, condition)
    if batch is None or not isinstance(outcome, Committed):
        return outcome
    warnings = warn_of_no_rows(request.operation, table.config, batch.num_rows)
    return replace(outcome, warnings=(*outcome.warnings, *warnings))


def write_rows_from(
    table: Table,
    schema: pa.Schema | None,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], pa.Table | None],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write what `find` makes of the snapshot that the write starts from, under `schema`; each
    attempt looks anew.

    Raises as `write_arrow`, and as `find` with everything rolled back.
    """
    return with_retries(
        table,
        options,
        lambda number: write_once(
            table, schema, request.of_attempt(number), options, find, condition
        ),
    )


def write_once(
    table: Table,
    schema: pa.Schema | None,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], pa.Table | None],
    condition: Condition | None = None,
) -> CommitOutcome:
    """Write as `write_rows_from`, in one attempt. Raises as `write_rows_from`."""
    transaction = WriteClient(table, options).begin(schema, request)
    try:
        statuses: list[WriteStatus] = []
        letters: list[DeadLetterFile] = []
        context, task = transaction.context, TaskIds()
        if (batch := find(context)) is None:
            transaction.declare_reads(ReadSet())
        else:
            sifted = sift(context, batch, is_numbered=True)
            reads = build_read_set(context, sifted.prepared, (), table.storage)
            transaction.declare_reads(reads)
            statuses = write_file_groups(context, sifted.prepared, task, table.storage)
            letters = sifted.put_letters(context, task, table.storage)
    except EarlyConflict:
        return transaction.lose_early()
    except Exception as error:
        transaction.fail(error)
        raise
    return transaction.commit(statuses, letters, condition)
