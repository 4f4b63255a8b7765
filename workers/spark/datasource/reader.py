"""Reading through the data source: one partition per file slice, merged in Python.

Columns and a filter are options of each `load`, and reach the plan of `workers.read.scan_plan`; the
filter is not Spark's `pushFilters`, because Spark 4.1 keeps what was planned for a filter with the
frame that `load` gave, and other queries on that frame then miss rows without a word. As an option
it is part of the frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from workers.errors import InvalidInput
from workers.read.changes import changes_schema, plan_changes
from workers.read.file_slice import slice_schema
from workers.read.refuted_slices import leave_out_unmatched
from workers.read.request import Query, ReadRequest, check_columns
from workers.read.scan_plan import scan_of
from workers.read.snapshot import schema_for_reading
from workers.schema.table_schema import TableSchema
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.scan import ReadContext, Work, piece_batches
from workers.spark.types import to_spark, type_names
from workers.spark.work import ChangeWork, ScanWork
from workers.table.table import Table


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


def plan_work(
    table: Table, request: ReadRequest, condition: str | None = None
) -> tuple[Work, pa.Schema]:
    """What to read and what its rows look like; `condition` as `predicate_of` takes it, over the
    table's columns. Raises as `read_dataframe`.
    """
    match request.query:
        case Query.SNAPSHOT | Query.READ_OPTIMIZED | Query.INCREMENTAL:
            scan = leave_out_unmatched(scan_of(table, request, condition))
            return ScanWork.of(scan, context_of(table, scan.table_schema)), scan.schema
        case Query.CDC:
            if condition is not None:
                raise InvalidInput("a filter goes with rows, not with changes", filter=condition)
            changes = plan_changes(table, since=request.since, until=request.until)
            images = changes_schema(changes.schema)
            names = request.columns or tuple(images.names)
            check_columns(names, images.names)
            rows = pa.schema([images.field(name) for name in names])
            return ChangeWork(context_of(table, changes.schema), changes), rows
        case _:
            assert_never(request.query)


def check_declared(declared: StructType, rows: pa.Schema) -> None:
    """Spark takes the bytes of a column for what was declared and looks at none of them.

    Raises InvalidInput where that is something else.
    """
    said, given = type_names(declared), type_names(to_spark(rows))
    if list(said.items()) != list(given.items()):
        raise InvalidInput(
            "the columns that Spark expects are not those of the table: they were declared "
            "otherwise, or have changed since the frame or view was made; make it anew",
            expected=sorted(f"{name} {kind}" for name, kind in said.items() - given.items()),
            there=sorted(f"{name} {kind}" for name, kind in given.items() - said.items()),
        )


def rows_schema(table: Table, request: ReadRequest) -> pa.Schema:
    """The columns of a window's rows as the table has them now; without those of the request that
    there are not. Raises MalformedTable.
    """
    schema = schema_for_reading(table, table.timeline(), None, has_data=False)
    is_changes = request.query is Query.CDC
    known = changes_schema(schema) if is_changes else slice_schema(schema)
    names = request.columns or (known.names if is_changes else schema.field_names)
    return pa.schema([known.field(name) for name in names if name in known.names])


def context_of(table: Table, schema: TableSchema) -> ReadContext:
    """What tasks need to read files of this table as rows of `schema`."""
    return ReadContext(table.storage.location, table.config, schema)
