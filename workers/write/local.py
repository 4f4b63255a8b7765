"""A whole write in one process, without Spark: the same begin, files and commit as every other
writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome, Conflicted
from workers.config import WriteOptions, write_options
from workers.table.table import Table
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.dead_letters import DeadLetters, sifted
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.status import TaskIds, WriteStatus

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
    return with_retries(typed, lambda: _attempt(table, batch, request, typed))


def with_retries(options: WriteOptions, attempt: Callable[[], CommitOutcome]) -> CommitOutcome:
    """Attempts until one does not conflict, each on the table as it is then."""
    outcome = attempt()
    for _ in range(options.conflict_retries):
        if not isinstance(outcome, Conflicted):
            break
        outcome = attempt()
    return outcome


def _attempt(
    table: Table, batch: pa.Table | None, request: WriteRequest, options: WriteOptions
) -> CommitOutcome:
    schema = batch.schema if batch is not None else None
    transaction = WriteClient(table, options).begin(schema, request)
    try:
        statuses: list[WriteStatus] = []
        if batch is not None:
            prepared = _prepared(transaction.context, batch)
            statuses = write_file_groups(transaction.context, prepared, TaskIds(), table.storage)
    except Exception as error:
        transaction.abort(f"{type(error).__name__}: {error}")
        raise
    return transaction.commit(statuses)


def _prepared(context: WriteContext, batch: pa.Table) -> pa.Table:
    path = context.options.dead_letter_path
    if not path:
        return prepare(context, batch)
    good, bad = sifted(batch, partial(prepare, context))
    if bad:
        DeadLetters(path, context.instant).write(batch, bad)
    return prepare(context, good)
