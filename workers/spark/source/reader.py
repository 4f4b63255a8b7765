"""Reading through the data source: one partition per file slice, merged in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from workers.read.changes import changes_schema, plan_changes
from workers.read.file_slice import slice_schema
from workers.read.incremental import plan_incremental
from workers.read.request import Query, ReadRequest
from workers.read.rows import check_columns
from workers.read.snapshot import plan_snapshot
from workers.spark.scan import ReadContext, Work, piece_batches
from workers.spark.work import ChangeWork, SliceWork, WindowWork
from workers.table.table import Table


class SluiceReader(DataSourceReader):
    def __init__(self, work: Work, schema: pa.Schema) -> None:
        self._work = work
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self._work))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On executors. Raises SnapshotExpired."""
        yield from piece_batches(self._work, self._schema, int(partition.value))


def plan_work(table: Table, asked: ReadRequest) -> tuple[Work, pa.Schema]:
    """What to read and what its rows look like. Raises as `read_dataframe`."""
    location, config = table.storage.location, table.config
    match asked.query:
        case Query.SNAPSHOT | Query.READ_OPTIMIZED:
            is_optimized = asked.query is Query.READ_OPTIMIZED
            snapshot = plan_snapshot(table, as_of=asked.as_of, is_read_optimized=is_optimized)
            rows = _wanted(asked, slice_schema(snapshot.schema), snapshot.schema.field_names)
            context = ReadContext(location, config, snapshot.schema)
            return SliceWork(context, snapshot.slices, tuple(rows.names)), rows
        case Query.INCREMENTAL:
            window = plan_incremental(table, since=asked.since, until=asked.until)
            rows = _wanted(asked, slice_schema(window.schema), window.schema.field_names)
            return WindowWork(ReadContext(location, config, window.schema), window), rows
        case Query.CDC:
            changes = plan_changes(table, since=asked.since, until=asked.until)
            images = changes_schema(changes.schema)
            rows = _wanted(asked, images, tuple(images.names))
            return ChangeWork(ReadContext(location, config, changes.schema), changes), rows
        case _:
            assert_never(asked.query)


def _wanted(asked: ReadRequest, known: pa.Schema, default: tuple[str, ...]) -> pa.Schema:
    names = asked.columns or default
    check_columns(names, known.names)
    return pa.schema([known.field(name) for name in names])
