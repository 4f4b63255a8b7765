"""The service `delete`: delete the rows that a condition or a list of keys names, slice by slice,
never the table at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.concurrency.read_set import ReadSet
from workers.errors import EarlyConflict, InvalidInput
from workers.files.meta_columns import META_COLUMNS
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.read.file_slice import read_slice
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.deletes.outcome import check_committed
from workers.table_services.deletes.read_set import read_set_from_keys
from workers.table_services.deletes.selection import Selection, parse_selection
from workers.table_services.service import (
    SAMPLE_ROWS,
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.write.client import WriteClient
from workers.write.deletes import check_ages, check_ordered_deletes
from workers.write.groups import rows_at
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.retry import with_retries
from workers.write.status import TaskIds

_NAME: Final = "delete"
_RowsBySlice = list[tuple[FileSlice, pa.Table]]


class Delete:
    """The service `delete`."""

    name = _NAME

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameters: see `parse_selection`."""
        schema = _schema(table)
        selection = parse_selection(table.config, schema, parameters)
        view = FileSystemView.load(table)
        keys = _key_columns(table)
        selected = sorted((selection.columns or frozenset()) & set(schema.arrow.names) - {*keys})
        columns = (*keys, *selected)
        matching_rows = list(_matching(table, schema, selection, view.slices, None, columns))
        return replace(_plan(table, matching_rows), sample=_take_sample(matching_rows))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`. Raises PlanChanged as well if another writer committed first."""
        plan = _plan(table, [])

        def attempt(number: int) -> CommitOutcome | None:
            nonlocal plan
            plan, outcome = _attempt(table, request, options, on_progress, number)
            return outcome

        outcome = with_retries(table, options, attempt)
        if outcome is None:
            return ServiceOutcome(_NAME, None, plan.summary, plan.figures)
        instant = check_committed(outcome, service=_NAME)
        return ServiceOutcome(_NAME, instant, f"deleted {plan.figures['rows']} rows", plan.figures)


def _attempt(
    table: Table,
    request: ServiceRequest,
    options: WriteOptions,
    on_progress: Progress | None,
    number: int,
) -> tuple[ServicePlan, CommitOutcome | None]:
    """Delete the rows once. Return the plan, and the outcome of the write; None when no row matched
    a condition.
    """
    schema = _schema(table)
    selection = parse_selection(table.config, schema, request.parameters)
    # Listed keys are deleted, whatever they hold by then.
    is_ordered = (
        options.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
        and selection.listed is None
    )
    if is_ordered:
        check_ordered_deletes(table.config, schema.arrow)
    columns = _key_columns(table)
    if is_ordered and table.config.ordering_field not in (None, *columns):
        columns = (*columns, str(table.config.ordering_field))
    batch = pa.schema([schema.arrow.field(name) for name in columns])
    write_request = WriteRequest(_NAME, is_ordered=is_ordered, reads_rows=True)
    transaction = WriteClient(table, options).begin(batch, write_request.for_attempt(number))
    plan = _plan(table, [])
    try:
        # Rows of the snapshot that the transaction started from; later ones are a conflict.
        slices = transaction.context.slices.values()
        matching_rows = list(_matching(table, schema, selection, slices, on_progress, columns))
        plan = _plan(table, matching_rows)
        plan.check(request)
        if is_ordered:
            for _, rows in matching_rows:
                check_ages(table.config, rows)
        context = transaction.context
        slots = {_key(slice_): slot for (_, slot), slice_ in context.slices.items()}
        groups = [
            rows_at(prepare(context, rows), slice_.partition, slots[_key(slice_)])
            for slice_, rows in matching_rows
        ]
        if selection.listed is not None:
            places = {_key(slice_): rows for slice_, rows in matching_rows}
            read_keys = read_set_from_keys(context, selection.listed, places)
            transaction.declare_reads(ReadSet(keys=read_keys))
        statuses = write_row_groups(context, groups, TaskIds(), table.storage)
    except EarlyConflict:
        return plan, transaction.lose_early()
    except Exception as error:
        transaction.fail(error)
        raise
    # Only under the lock is it certain that no listed key came in between.
    if plan.is_empty and selection.listed is None:
        transaction.abort("no row matches")
        return plan, None
    return plan, transaction.commit(statuses)


def _matching(
    table: Table,
    schema: TableSchema,
    selection: Selection,
    slices: Iterable[FileSlice],
    on_progress: Progress | None = None,
    columns: tuple[str, ...] = (),
) -> Iterator[tuple[FileSlice, pa.Table]]:
    """`columns` (key and partition when empty) of the rows to delete, per slice that has any."""
    result_columns = columns or _key_columns(table)
    read_columns = None if selection.columns is None else {*result_columns, *selection.columns}
    ordered = sorted(slices, key=lambda file_slice: (file_slice.partition, file_slice.file_id))
    for done, slice_ in enumerate(ordered, start=1):
        rows = read_slice(
            table.storage, table.config.showing_unmatched, schema, slice_, columns=read_columns
        )
        rows = rows.drop_columns([name for name in META_COLUMNS if name in rows.column_names])
        matching = selection.of(rows).select(list(result_columns))
        if matching.num_rows:
            yield slice_, matching
        if on_progress is not None:
            on_progress(done, len(ordered))


def _plan(table: Table, matching_rows: _RowsBySlice) -> ServicePlan:
    total = sum(rows.num_rows for _, rows in matching_rows)
    items = tuple(
        PlanItem(
            f"{rows.num_rows} rows of {'/'.join(filter(None, _key(slice_)))}",
            "delete",
            digest=_digest(rows.select(list(_key_columns(table)))),
        )
        for slice_, rows in matching_rows
    )
    return ServicePlan(
        service=_NAME,
        summary=f"delete {total} rows in {len(items)} file groups" if items else "no row matches",
        items=items,
        blockers=() if table.write_refusal is None else (table.write_refusal,),
        figures={
            "rows": total,
            "file_groups": len(items),
            "partitions": len({slice_.partition for slice_, _ in matching_rows}),
        },
    )


def _take_sample(matching_rows: _RowsBySlice) -> pa.Table | None:
    if not matching_rows:
        return None
    first = [rows.slice(0, SAMPLE_ROWS) for _, rows in matching_rows[:SAMPLE_ROWS]]
    return pa.concat_tables(first).slice(0, SAMPLE_ROWS)


def _digest(rows: pa.Table) -> str:
    """A hash of the keys in their order: other rows are another plan, the same rows elsewhere are
    not.
    """
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as stream:
        stream.write_table(ordered)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _key(slice_: FileSlice) -> tuple[str, str]:
    return slice_.partition, slice_.file_id


def _key_columns(table: Table) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*table.config.record_key, *table.config.partition_by)))


def _schema(table: Table) -> TableSchema:
    schema = load_schema(table)
    if schema is None:
        raise InvalidInput("the table has no schema yet, so no rows", table=table.config.name)
    return schema
