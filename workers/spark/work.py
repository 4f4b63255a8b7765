"""What tasks read in Python: slices merged whole, windows, changes. Picklable, a piece by its
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from workers.read.changes import ChangesPlan, unit_changes
from workers.read.file_slice import merge_slice_batches
from workers.read.incremental import IncrementalPlan, window_rows
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
        context = self.context
        slice_ = self.plan.slices[number]
        yield window_rows(context.storage, context.config, self.plan, slice_, rule=context.rule)


@dataclass(frozen=True, slots=True)
class ChangeWork:
    """The units of a changes plan, each with its inserts, updates and deletes."""

    context: ReadContext
    plan: ChangesPlan

    def __len__(self) -> int:
        return len(self.plan.units)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """One table, the changes of one unit. Raises NotFound for a file that was cleaned away."""
        context, unit = self.context, self.plan.units[number]
        schema = context.schema
        yield unit_changes(context.storage, context.config, schema, unit, rule=context.rule)
