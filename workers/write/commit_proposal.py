"""The proposal of a write: the commit's metadata, and the facts for its conflict checks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence

from workers.concurrency.proposal import Proposal
from workers.concurrency.read_set import ReadSet
from workers.options.write_options import WriteOptions
from workers.table.table import Table
from workers.timeline import metadata
from workers.timeline.timeline import Timeline
from workers.write.context import WriteContext
from workers.write.divergent_keys import DivergentKeys
from workers.write.out_of_order_rows import OutOfOrderRows
from workers.write.replacement import find_replacement
from workers.write.request import WriteRequest
from workers.write.status import DeadLetterFile, WriteStatus


def build_proposal(
    table: Table,
    options: WriteOptions,
    request: WriteRequest,
    context: WriteContext,
    written: Sequence[WriteStatus],
    *,
    writer: str,
    begun_from: Timeline,
    letters: Sequence[DeadLetterFile] = (),
    reads: ReadSet,
) -> Proposal:
    """Build the proposal: what `written` brings, its entries in the commit's metadata, and what to
    compare with the commits of others. `begun_from` is the timeline that the write started from.
    """
    rows = sum(status.rows for status in written)
    mode = options.mode.value
    process = {"host": socket.gethostname(), "pid": os.getpid(), "mode": mode}
    extra = {
        metadata.WRITER_KEY: writer,
        metadata.PROCESS_KEY: json.dumps(process),
        metadata.ROWS_KEY: str(rows),
        **dict(request.extra),
    }
    if options.dead_letter_path:
        extra[metadata.DEAD_LETTER_ROWS_KEY] = str(sum(file.rows for file in letters))
        names = ",".join(sorted(file.name for file in letters))
        extra[metadata.DEAD_LETTER_FILES_KEY] = names
    if options.operation_id:
        extra[metadata.OPERATION_KEY] = options.operation_id
    if request.stream:
        extra[metadata.STREAM_KEY] = request.stream
        extra[metadata.STREAM_COLUMNS_KEY] = ",".join(context.own_columns)
        orderings = [file.max_ordering for file in written if file.max_ordering is not None]
        if orderings:
            extra[metadata.STREAM_MAX_ORDERING_KEY] = str(max(orderings))
    if moved := sum(file.moved for file in written):
        extra[metadata.MOVED_ROWS_KEY] = str(moved)
    replaced = find_replacement(context, request, written)
    content = metadata.commit_metadata(
        [status.stat for status in written],
        extra=extra,
        operation_type=request.operation.upper(),
        replaced=replaced.file_ids,
    )
    return Proposal(
        content,
        context.schema,
        writer,
        rows,
        whole_partitions=replaced.whole_partitions,
        is_whole_table=replaced.is_whole_table,
        written=_find_written_columns(context, written),
        deletes_only=request.operation in ("delete", "delete_partition"),
        partitions=context.partitions,
        reads=reads,
        out_of_order=OutOfOrderRows(context, table.storage, content.stats),
        divergence=DivergentKeys(table, begun_from, context, written),
    )


def _find_written_columns(
    context: WriteContext, statuses: Sequence[WriteStatus]
) -> frozenset[str] | None:
    """Return the columns into which the files bring values; None without files."""
    if not statuses:
        return None
    is_moving = any(status.moved for status in statuses)  # And takes all columns along.
    columns = set(context.schema.field_names if is_moving else context.columns)
    return frozenset().union(*(columns.difference(status.empty_columns) for status in statuses))
