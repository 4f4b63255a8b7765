"""Reading through the data source: one partition per file slice, merged in Python.

A filter is an option and not Spark's `pushFilters`: Spark 4.1 keeps what was planned for a filter
with the frame that `load` gave, and other queries on that frame then miss rows without a word. As
an option it is part of the frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from workers.errors import InvalidInput
from workers.read.changes import changes_schema, plan_changes
from workers.read.file_slice import slice_schema
from workers.read.incremental import plan_incremental
from workers.read.pruning import SlicePruner
from workers.read.request import Query, ReadRequest
from workers.read.rows import check_columns
from workers.read.snapshot import plan_snapshot
from workers.schema.table_schema import TableSchema
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.scan import ReadContext, Work, piece_batches
from workers.spark.work import ChangeWork, SliceWork, WindowWork
from workers.table.table import Table
from workers.write.predicate import Predicate, predicate_of


class SluiceReader(DataSourceReader):
    """Reads the pieces of `work` as rows of `schema`, each in a Spark partition of its own."""

    def __init__(self, work: Work, schema: pa.Schema) -> None:
        self._work = work
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each piece, whose value is the piece's number from 0 on."""
        return [InputPartition(number) for number in range(len(self._work))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """On executors. Raises SnapshotExpired."""
        if partition is None:  # So Spark calls when there are no partitions.
            return
        with in_one_sentence():
            yield from piece_batches(self._work, self._schema, int(partition.value))


@dataclass(frozen=True, slots=True)
class FilteredWork:
    """The rows of another work that match."""

    work: Work
    expression: Any

    def __len__(self) -> int:
        return len(self.work)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """The other work's tables of this piece without the rows that do not match. Raises as it
        does.
        """
        for rows in self.work.tables(number):
            yield rows.filter(self.expression)


def plan_work(
    table: Table, request: ReadRequest, condition: str | None = None
) -> tuple[Work, pa.Schema]:
    """What to read and what its rows look like; `condition` as `predicate_of` takes it, over the
    table's columns. Raises as `read_dataframe`.
    """
    match request.query:
        case Query.SNAPSHOT | Query.READ_OPTIMIZED:
            return _snapshot(table, request, condition)
        case Query.INCREMENTAL:
            return _window(table, request, condition)
        case Query.CDC:
            if condition is not None:
                raise InvalidInput("a filter goes with rows, not with changes", filter=condition)
            changes = plan_changes(table, since=request.since, until=request.until)
            images = changes_schema(changes.schema)
            rows = _wanted(request, images, tuple(images.names))
            return ChangeWork(_context(table, changes.schema), changes), rows
        case _:
            assert_never(request.query)


def _snapshot(table: Table, request: ReadRequest, condition: str | None) -> tuple[Work, pa.Schema]:
    is_optimized = request.query is Query.READ_OPTIMIZED
    plan = plan_snapshot(table, as_of=request.as_of, is_read_optimized=is_optimized)
    rows = _wanted(request, slice_schema(plan.schema), plan.schema.field_names)
    context = _context(table, plan.schema)
    if condition is None:
        return SliceWork(context, plan.slices, tuple(rows.names)), rows
    predicate = predicate_of(condition, plan.schema.arrow)
    pruner = _pruner(table, plan.schema, predicate)
    slices = tuple(one for one in plan.slices if pruner.may_hold(one))
    columns = tuple(dict.fromkeys((*rows.names, *sorted(predicate.columns or ()))))
    return FilteredWork(SliceWork(context, slices, columns), predicate.expression), rows


def _window(table: Table, request: ReadRequest, condition: str | None) -> tuple[Work, pa.Schema]:
    plan = plan_incremental(table, since=request.since, until=request.until)
    rows = _wanted(request, slice_schema(plan.schema), plan.schema.field_names)
    context = _context(table, plan.schema)
    if condition is None:
        return WindowWork(context, plan), rows
    predicate = predicate_of(condition, plan.schema.arrow)
    pruner = _pruner(table, plan.schema, predicate)
    slices = tuple(one for one in plan.slices if pruner.may_hold(one.after))
    work = WindowWork(context, replace(plan, slices=slices))
    return FilteredWork(work, predicate.expression), rows


def _pruner(table: Table, schema: TableSchema, predicate: Predicate) -> SlicePruner:
    # Where the rows of a table that we may not write lie is not ours to tell.
    conditions = predicate.conditions if table.write_refusal is None else ()
    return SlicePruner(table.config, schema.arrow, conditions)


def _context(table: Table, schema: TableSchema) -> ReadContext:
    return ReadContext(table.storage.location, table.config, schema)


def _wanted(request: ReadRequest, known: pa.Schema, default: tuple[str, ...]) -> pa.Schema:
    names = request.columns or default
    check_columns(names, known.names)
    return pa.schema([known.field(name) for name in names])
