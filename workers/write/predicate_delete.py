"""Delete what matches a predicate: find keys in the snapshot that the write starts from, then
delete by key.

No row is deleted for the values of an older version. In optimistic mode a file group that another
writer changed since the start is a conflict. In non-blocking mode each delete contains the ordering
value of the row that matched, and a newer row stays. That never conflicts, so it also ends during
an ingest that never pauses. Rows that match only later stay: they were written later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.errors import EarlyConflict, InvalidInput
from workers.options.write_options import WriteOptions, write_options
from workers.options.writer_modes import ConcurrencyMode
from workers.read.predicate import Predicate, predicate_of
from workers.read.scan import slice_pruner
from workers.read.slice_scan import SliceScan
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.deletes import check_ages, check_ordered_deletes
from workers.write.groups import rows_at
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.retry import with_retries
from workers.write.status import TaskIds, WriteStatus


def delete_matching(table: Table, predicate: object, options: Mapping[str, str]) -> CommitOutcome:
    """Delete the rows that match `predicate`: text in SQL syntax, or a `pyarrow.compute`
    expression.

    Raises InvalidInput before anything is written; otherwise as `write_arrow`.
    """
    typed = write_options(options, table.config.get_mode("delete_matching"))
    return with_retries(table, typed, lambda number: _attempt(table, predicate, typed, number))


def _attempt(table: Table, predicate: object, options: WriteOptions, number: int) -> CommitOutcome:
    schema = load_schema(table)
    if schema is None:
        raise InvalidInput("the table has no schema yet, so there is nothing to delete")
    predicate_of(predicate, schema.arrow)  # Refused before the first effect.
    is_ordered = options.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
    if is_ordered:
        check_ordered_deletes(table.config, schema.arrow)
    request = WriteRequest("delete", is_ordered=is_ordered, reads_rows=True).for_attempt(number)
    transaction = WriteClient(table, options).begin(schema.arrow, request)
    context = transaction.context
    try:
        condition = predicate_of(predicate, context.schema.arrow)
        statuses: list[WriteStatus] = []
        for partition, slot, keys in _matching_keys(table, context, condition):
            if is_ordered:
                check_ages(table.config, keys)
            group = rows_at(prepare(context, keys), partition, slot)
            statuses += write_row_groups(context, [group], TaskIds(), table.storage)
    except EarlyConflict:
        return transaction.lose_early()
    except Exception as error:
        transaction.fail(error)
        raise
    return transaction.commit(statuses)


def _matching_keys(
    table: Table, context: WriteContext, predicate: Predicate
) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the keys of the rows that match, a file group at a time: partition, slot and
    columns.
    """
    config, schema = table.config.showing_unmatched, context.schema
    reading = SliceScan(table.storage, config, schema, tuple(context.columns), predicate)
    pruner = slice_pruner(table, schema, predicate)
    for (partition, slot), slice_ in context.slices.items():
        if not pruner.may_hold(slice_):
            continue
        if batches := list(reading.batches(slice_)):
            yield partition, slot, pa.Table.from_batches(batches)
