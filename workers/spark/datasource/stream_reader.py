"""Reading a stream through the data source: each batch is the window between two commits.

Spark asks for offsets and partitions in one process for as long as a query runs, and after a
restart in a new one, which is told nothing of what was read: so no offset is remembered here. A
batch whose offsets stand in the checkpoint is planned again from them, and has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from workers.errors import InvalidInput, SnapshotExpired
from workers.merge.mergers import Merger, install_mergers
from workers.read.changes import plan_changes
from workers.read.request import Query, ReadRequest
from workers.read.scan import Scan
from workers.read.scan_plan import window_as_now
from workers.read.stream_offsets import (
    StreamOffset,
    check_delivered,
    newest_offset,
    start_offset,
)
from workers.read.undisturbed import undisturbed
from workers.spark.datasource.options import opened
from workers.spark.datasource.reader import context_of, rows_schema
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.scan import piece_batches
from workers.spark.types import to_spark, type_names
from workers.spark.work import ChangeWork, ScanWork
from workers.table.table import Table
from workers.timeline.timeline import Timeline


@dataclass
class WindowPart(InputPartition):
    """What one task reads of a batch."""

    work: ScanWork | ChangeWork
    """Of one piece."""
    schema: pa.Schema


class SluiceStreamReader(DataSourceStreamReader):
    """Reads a table as a stream of rows of `schema`, which the query was started with."""

    def __init__(
        self,
        location: str,
        request: ReadRequest,
        condition: str | None,
        start: str,
        schema: StructType,
        mergers: Mapping[str, Merger],
    ) -> None:
        self._location = location
        self._request = request
        self._condition = condition
        self._start = start
        self._schema = schema
        self._mergers = mergers
        self._opened: Table | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 (Spark's)
        """Where a query without a checkpoint begins. Raises InvalidInput, TableNotFound."""
        with in_one_sentence():
            return start_offset(self._table(), self._start).to_json()

    def latestOffset(self) -> dict[str, str]:  # noqa: N802 (Spark's)
        """The newest commit. Raises MalformedTable, TableNotFound."""
        with in_one_sentence():
            return newest_offset(self._table()).to_json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[WindowPart]:
        """What the tasks of a batch read. Raises SnapshotExpired where files of it were cleaned
        away, InvalidInput where a commit was taken back or the table's columns have changed.
        """
        with in_one_sentence():
            since, until = StreamOffset.of_json(start), StreamOffset.of_json(end)
            if since == until:
                return []
            try:
                return self._planned(self._table(), since, until)
            except SnapshotExpired as expired:
                raise SnapshotExpired(
                    "cleaning took files away that the stream's next batch needs; start the query "
                    "with a new checkpoint, and keep more versions for slow streams "
                    "(hoodie.cleaner.commits.retained)",
                    since=since.completed_at,
                    until=until.completed_at,
                    why=expired,
                ) from expired

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On executors. Raises SnapshotExpired."""
        assert isinstance(partition, WindowPart), partition
        with in_one_sentence():
            yield from piece_batches(partition.work, partition.schema, 0)

    def _table(self) -> Table:
        """Spark asks again and again, and what was read of the history is kept with it."""
        if self._opened is None:
            install_mergers(self._mergers)
            self._opened = opened(self._location)
        return self._opened

    def _planned(
        self, table: Table, since: StreamOffset, until: StreamOffset
    ) -> Sequence[WindowPart]:
        self._check_columns(table)
        names = tuple(self._schema.fieldNames())
        request = replace(
            self._request, since=since.completed_at, until=until.completed_at, columns=names
        )
        work, schema = _window_work(table, request, self._condition, (since, until))
        return [WindowPart(work.piece(number), schema) for number in range(len(work))]

    def _check_columns(self, table: Table) -> None:
        """Rows are cast to what the query was started with, so nothing may differ by now."""
        known = type_names(to_spark(rows_schema(table, self._request)))
        given = type_names(self._schema)
        if given != known:
            raise InvalidInput(
                "the table's columns have changed since the query was started; start it again with"
                " its checkpoint, and it goes on with the columns that there are now",
                now=sorted(f"{name} {kind}" for name, kind in known.items() - given.items()),
                was=sorted(f"{name} {kind}" for name, kind in given.items() - known.items()),
            )


def _window_work(
    table: Table,
    request: ReadRequest,
    condition: str | None,
    ends: tuple[StreamOffset, StreamOffset],
) -> tuple[ScanWork | ChangeWork, pa.Schema]:
    if request.query is Query.CDC:
        if condition is not None:
            raise InvalidInput("a filter goes with rows, not with changes", filter=condition)
        for offset in ends:
            check_delivered(table, table.timeline(), offset)
        # Planned up to now, so that images have the columns of now.
        changes = plan_changes(table, since=request.since)
        units = tuple(one for one in changes.units if one.completed_at <= (request.until or ""))
        work = ChangeWork(context_of(table, changes.schema), replace(changes, units=units))
        return work, rows_schema(table, request)

    def look(timeline: Timeline) -> Scan:
        for offset in ends:
            check_delivered(table, timeline, offset)
        return window_as_now(table, timeline, request, condition)

    scan = undisturbed(table, look)
    return ScanWork.of(scan, context_of(table, scan.table_schema)), scan.schema
