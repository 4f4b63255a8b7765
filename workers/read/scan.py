"""A read that is planned before it begins: which columns, which rows, how many, of which moment or
window.

Slices that the filter cannot meet are left out by partition and bucket, row groups by the
statistics of base files; what is left is filtered row by row, so leaving out changes no answer.
Batches come slice after slice, whichever of them were read beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from workers.concurrency.rolled_back_commits import find_rolled_back
from workers.errors import InvalidInput, NotFound, SnapshotChanged
from workers.read.at_once import AHEAD_BYTES, in_order
from workers.read.file_slice import slice_schema
from workers.read.incremental import IncrementalPlan, WindowSlice, window_rows
from workers.read.predicate import Predicate, predicate_of
from workers.read.pruning import SlicePruner
from workers.read.slice_scan import SliceScan
from workers.read.undisturbed import expired
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.threads import usable_cores
from workers.timeline.timeline import Timeline

_EVERYTHING: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """A slice of the moment, or of a window's end, and whether it is read."""

    slice_: FileSlice
    left_out_by: str | None = None
    """What tells that it holds no row that is wanted; None where it is read."""
    window: WindowSlice | None = None
    """Where rows are compared with those of the window's start: `slice_` is the first of it."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """All that are read together."""
        return (self.slice_,) if self.window is None else self.window.after


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a table, none of which is read yet. Made by `workers.read.scan_plan`.

    It may be read again and again, and gives the same rows for as long as the table keeps their
    files.
    """

    table: Table
    timeline: Timeline
    """As it was when the scan was planned."""
    table_schema: TableSchema
    planned: tuple[PlannedSlice, ...]
    columns: tuple[str, ...]
    predicate: Predicate | None
    limit: int | None = None
    window: IncrementalPlan | None = None
    """With `PlannedSlice.window`: whose commits the rows are of."""
    threads: int = 0
    """How many slices are read beside each other; 0 for one on each core."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """Those that may hold rows that are wanted."""
        wanted = [one for one in self.planned if one.left_out_by is None]
        return tuple(slice_ for one in wanted for slice_ in one.slices)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are wanted, in their order."""
        known = slice_schema(self.table_schema)
        return pa.schema([known.field(name) for name in self.columns])

    def limited(self, rows: int | None) -> Scan:
        """The same, of at most so many rows. Raises InvalidInput."""
        check_limit(rows)
        return replace(self, limit=rows)

    def narrowed(self, columns: tuple[str, ...], predicate: Predicate | None) -> Scan:
        """The same of these columns and rows: fewer, if `predicate` asks for more than this one's.
        Slices that it cannot meet are left out.
        """
        pruner = slice_pruner(self.table, self.table_schema, predicate)
        planned = tuple(
            one
            if one.left_out_by is not None or one.window is not None
            else replace(one, left_out_by=pruner.reason(one.slice_))
            for one in self.planned
        )
        return replace(self, columns=columns, predicate=predicate, planned=planned)

    def with_hint(self, condition: str | None) -> Scan:
        """Return the scan without slices and row groups that hold no row for which `condition` is
        true. Rows are not filtered by it: an engine does that by its own rules. Raises InvalidInput
        if the scan has a filter, or the condition does not fit.
        """
        if condition is None:
            return self
        if self.predicate is not None or self.window is not None:
            raise InvalidInput("a scan with a filter or a window takes no hint", hint=condition)
        hint = predicate_of(condition, self.table_schema.arrow).as_hint()
        return self.narrowed(self.columns, hint)

    def to_batches(self) -> pa.RecordBatchReader:
        """Reads as it is asked on, and holds little more than the logs of the slices under way.

        While it is read it raises SnapshotExpired where a file is gone, SnapshotChanged where a
        commit that it gave rows of was taken back, MalformedTable, UnsupportedTable.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(AHEAD_BYTES))

    def to_arrow(self) -> pa.Table:
        """All rows at once. Raises as `to_batches`."""
        return pa.Table.from_batches(list(self._batches(_EVERYTHING)), self.schema)

    def to_pandas(self) -> Any:
        """A DataFrame of pandas. Raises as `to_batches`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A LazyFrame of Polars, which hands its columns, filters and limits on to this scan.

        Raises InvalidInput where Polars is not installed; while it is read as `to_batches`.
        """
        from workers.read.polars_door import lazy_frame

        return lazy_frame(self)

    def to_duckdb(self) -> Any:
        """An Arrow dataset for DuckDB, which hands its columns and filters on to this scan:
        `trips = scan.to_duckdb(); duckdb.sql("SELECT ... FROM trips")`.
        """
        from workers.read.dataset_door import ScanDataset

        return ScanDataset.of(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For libraries that take Arrow's C streams, such as `polars.from_arrow`."""
        reader: Any = self.to_batches()
        return reader.__arrow_c_stream__(requested_schema)

    def explain(self) -> str:
        """What will be read, what was left out and why, and the bytes to read. Reads the footers of
        base files that stand to be read. Raises as `to_batches`.
        """
        from workers.read.explained import explained

        return explained(self)

    def reading(self) -> SliceScan:
        """How each slice is read."""
        table = self.table
        return SliceScan(
            table.storage, table.config, self.table_schema, self.columns, self.predicate
        )

    def rows_now(self) -> pa.Table:
        """As `to_arrow`, for whoever looks whether the table changed meanwhile. Raises NotFound
        where a file is gone, MalformedTable, UnsupportedTable.
        """
        return pa.Table.from_batches(list(self._limited(_EVERYTHING)), self.schema)

    def _batches(self, ahead_bytes: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._limited(ahead_bytes)
        except NotFound as error:
            raise expired(error) from error
        if find_rolled_back(self.table, self.timeline, self.table.timeline()):
            raise SnapshotChanged("commits are being taken back", table=self.table.storage.location)

    def _limited(self, ahead_bytes: int) -> Iterator[pa.RecordBatch]:
        left = self.limit
        if left == 0:
            return
        for batch in self._all(ahead_bytes):
            part = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - part.num_rows
            yield part
            if left == 0:
                return

    def _all(self, ahead_bytes: int) -> Iterator[pa.RecordBatch]:
        wanted = [one for one in self.planned if one.left_out_by is None]
        # With a limit no file is opened that may not be needed.
        most = 1 if self.limit is not None else self.threads or usable_cores()
        opened = partial(self._of_slice, self.reading())
        threads = max(1, min(most, len(wanted)))
        return in_order(opened, wanted, threads=threads, ahead_bytes=ahead_bytes)

    def _of_slice(self, reading: SliceScan, planned: PlannedSlice) -> Iterator[pa.RecordBatch]:
        return planned_batches(reading, planned, self.window)


def planned_batches(
    reading: SliceScan, planned: PlannedSlice, window: IncrementalPlan | None
) -> Iterator[pa.RecordBatch]:
    """The rows of one slice of a scan that `reading` reads; `window` is the scan's.

    Raises NotFound, MalformedTable, UnsupportedTable.
    """
    if planned.window is None:
        yield from reading.batches(planned.slice_)
        return
    assert window is not None, planned
    rows = window_rows(
        reading.storage, reading.config, window, planned.window, rule=reading.shipped_rule
    )
    yield from reading.filtered(rows).select(list(reading.columns)).to_batches()


def slice_pruner(table: Table, schema: TableSchema, predicate: Predicate | None) -> SlicePruner:
    """Leaves out slices of this table by what the predicate says of single columns."""
    # Where the rows of a table that we may not write lie is not ours to tell.
    is_ours = predicate is not None and table.write_refusal is None
    conditions = predicate.conditions if predicate is not None and is_ours else ()
    return SlicePruner(table.config, schema.arrow, conditions)


def check_limit(rows: object) -> None:
    """Refuses what is no number of rows. Raises InvalidInput."""
    if rows is not None and (type(rows) is not int or rows < 0):
        raise InvalidInput("a limit is a number of rows, zero or more", given=rows)
