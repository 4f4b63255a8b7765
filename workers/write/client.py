"""WriteClient: begin a write, hand its context to the tasks that write the files, commit their
statuses or abort.

Spark, Arrow and the Kafka sink all use it: there is only one commit path.
"""

from __future__ import annotations

import pyarrow as pa

from workers.concurrency import transaction
from workers.concurrency.begin import StartedTransaction
from workers.concurrency.heartbeat import HeartbeatContent
from workers.options.write_options import WriteOptions
from workers.processes import this_process
from workers.recovery.failed_writes import (
    clean_before_write,
    delete_late_files,
)
from workers.schema.conversion import find_left_out_columns
from workers.schema.strategies import check_strategy
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.instant import Action
from workers.write.columns import writer_schema
from workers.write.context import WriteContext
from workers.write.request import WriteRequest, check_request
from workers.write.snapshot_context import build_snapshot_context
from workers.write.transaction import Transaction

__all__ = ["Transaction", "WriteClient", "WriteRequest"]


class WriteClient:
    """Begins writes of one table by one set of options; any number of them, one after the other."""

    def __init__(self, table: Table, options: WriteOptions) -> None:
        self._table = table
        self._options = options
        self._writer = options.writer or f"writer-{table.ports.ids.token()[:8]}"

    def begin(
        self, batch_schema: pa.Schema | None, request: WriteRequest | None = None
    ) -> Transaction:
        """Clean up as the options require, then start an instant. `delete_partition` has no batch.

        Raises InvalidInput or UnsupportedTable before anything is written, LockTimeout.
        """
        request = request or WriteRequest()
        table = self._table
        table.check_writable(begins_to_write=True)
        check_request(table, self._options, request)
        check_strategy(self._options.schema_strategy)
        # Refused before the first effect; done again on what the transaction starts from.
        writer_schema(table, self._options, request, batch_schema, load_schema(table))
        clean_before_write(table, self._options)
        content = HeartbeatContent(
            self._options, self._writer, request.operation, request.stream, *(request.sink or ())
        )
        action = Action.REPLACECOMMIT if request.replaces else None
        started = transaction.begin(table, self._options, content, action)
        attempt = Transaction(table, self._options, self._writer, request, started)
        try:
            attempt.context = build_start_context(
                table,
                self._options,
                request,
                started,
                writer=self._writer,
                batch_schema=batch_schema,
            )
        except Exception as error:
            attempt.fail(error)
            raise
        if batch_schema is not None and request.operation != "delete":
            schema = attempt.context.schema
            attempt.left_out = tuple(find_left_out_columns(batch_schema, schema.arrow))
        return attempt


def build_start_context(
    table: Table,
    options: WriteOptions,
    request: WriteRequest,
    started: StartedTransaction,
    *,
    writer: str,
    batch_schema: pa.Schema | None,
) -> WriteContext:
    """Build the context for the tasks of the write, from the snapshot that it started from.

    Raises InvalidInput for a batch that does not match the table's current schema.
    """
    at_start = started.schema
    schema_at_start = at_start.schema if at_start else load_schema(table, started.timeline)
    schema = writer_schema(table, options, request, batch_schema, schema_at_start)
    view = FileSystemView.load(table, timeline=started.timeline)
    delete_late_files(table, view)
    return build_snapshot_context(
        view,
        options,
        request,
        instant=started.instant.requested_at,
        writer=writer,
        schema=schema,
        batch_schema=batch_schema,
        begun_in=this_process(),
    )
