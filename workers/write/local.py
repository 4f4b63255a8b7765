"""A whole write in one process, without Spark: the same begin, files and commit as every other
writer's.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.config import WriteOptions, write_options
from workers.errors import EarlyConflict
from workers.table.table import Table
from workers.write.client import WriteClient
from workers.write.handles import write_file_groups
from workers.write.request import WriteRequest
from workers.write.retrying import with_retries
from workers.write.sifting import sift
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus

ArrowData = pa.Table | pa.RecordBatch | pa.RecordBatchReader


def write_arrow(
    table: Table, data: ArrowData | None, request: WriteRequest, options: Mapping[str, str]
) -> CommitOutcome:
    """Write and commit one batch; None for an operation that takes no rows.

    Raises InvalidInput before anything is written, LockTimeout and MarkerRefused with everything
    rolled back.
    """
    rows = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    batch = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    typed = write_options(options)
    return with_retries(
        table, typed, lambda number: _attempt(table, batch, request.of_attempt(number), typed)
    )


def _attempt(
    table: Table, batch: pa.Table | None, request: WriteRequest, options: WriteOptions
) -> CommitOutcome:
    schema = batch.schema if batch is not None else None
    transaction = WriteClient(table, options).begin(schema, request)
    try:
        statuses: list[WriteStatus] = []
        letters: list[DeadLetterFile] = []
        if batch is not None:
            context, task = transaction.context, TaskIds()
            sifted = sift(context, batch, is_numbered=True)
            statuses = write_file_groups(context, sifted.prepared, task, table.storage)
            letters = sifted.put_letters(context, task, table.storage)
    except EarlyConflict:
        return transaction.lose_early()
    except Exception as error:
        transaction.abort(f"{type(error).__name__}: {error}")
        raise
    return transaction.commit(statuses, letters)
