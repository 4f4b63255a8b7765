"""What tasks read in Python: slices merged whole, windows, changes. Picklable, a piece by its
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from workers.read.changes import ChangesPlan, unit_changes
from workers.read.file_slice import merge_slice_batches
from workers.read.incremental import IncrementalPlan, window_rows
from workers.read.predicate import Predicate
from workers.read.scan import PlannedSlice, Scan, planned_batches
from workers.read.slice_scan import SliceScan
from workers.spark.scan import ReadContext
from workers.table.file_group import FileSlice


@dataclass(frozen=True, slots=True)
class SliceWork:
    """Slices merged whole in Python."""

    context: ReadContext
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """The merged rows of one slice, a batch at a time. Raises NotFound for a file that was
        cleaned away.
        """
        context, slice_ = self.context, self.slices[number]
        for batch in merge_slice_batches(
            context.storage,
            context.config,
            context.schema,
            slice_,
            columns=self.columns,
            rule=context.rule,
        ):
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class ScanWork:
    """What a scan reads, each slice as the scan would."""

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None
    planned: tuple[PlannedSlice, ...]
    """Those that may hold rows that are wanted."""
    window: IncrementalPlan | None

    @classmethod
    def of(cls, scan: Scan, context: ReadContext) -> ScanWork:
        """The scan without what stays in its process, and without what it left out."""
        planned = tuple(one for one in scan.planned if one.left_out_by is None)
        return cls(context, scan.columns, scan.predicate, planned, scan.window)

    def __len__(self) -> int:
        return len(self.planned)

    def piece(self, number: int) -> ScanWork:
        """This piece alone."""
        return replace(self, planned=(self.planned[number],))

    def tables(self, number: int) -> Iterator[pa.Table]:
        """The wanted rows of one slice, a batch at a time. Raises NotFound for a file that was
        cleaned away.
        """
        context = self.context
        reading = SliceScan(
            context.storage,
            context.config,
            context.schema,
            self.columns,
            self.predicate,
            context.rule,
        )
        for batch in planned_batches(reading, self.planned[number], self.window):
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class WindowWork:
    """The slices of an incremental plan, each with the rows that the window's commits wrote."""

    context: ReadContext
    plan: IncrementalPlan

    def __len__(self) -> int:
        return len(self.plan.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """One table with the window's rows of one slice. Raises NotFound for a file that was
        cleaned away.
        """
        context, window_slice = self.context, self.plan.slices[number]
        yield window_rows(
            context.storage, context.config, self.plan, window_slice, rule=context.rule
        )


@dataclass(frozen=True, slots=True)
class ChangeWork:
    """The units of a changes plan, each with its inserts, updates and deletes."""

    context: ReadContext
    plan: ChangesPlan

    def __len__(self) -> int:
        return len(self.plan.units)

    def piece(self, number: int) -> ChangeWork:
        """This piece alone."""
        return replace(self, plan=replace(self.plan, units=(self.plan.units[number],)))

    def tables(self, number: int) -> Iterator[pa.Table]:
        """One table, the changes of one unit. Raises NotFound for a file that was cleaned away."""
        context, unit = self.context, self.plan.units[number]
        schema = context.schema
        yield unit_changes(context.storage, context.config, schema, unit, rule=context.rule)
