"""Everything that an executor needs to write, and nothing else: it never reads the timeline.

Small and picklable. A new need of executors goes here, not into globals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workers.clock import InstantTime
from workers.config import TableConfig
from workers.markers.base import MarkerSettings
from workers.merge.merge import MergeRule
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice

Operation = Literal["upsert", "bulk_insert"]
OPERATIONS: tuple[Operation, ...] = ("upsert", "bulk_insert")


@dataclass(frozen=True, slots=True)
class WriteContext:
    location: str
    instant: InstantTime
    operation: Operation
    config: TableConfig
    schema: TableSchema
    """The writer schema: the table's at start plus the batch's new columns."""
    columns: tuple[str, ...]
    """What the files of this write hold, in the schema's order: all of it, or a stream's own
    columns.
    """
    slices: Mapping[tuple[str, int], FileSlice]
    """(partition, bucket) -> what was visible at the start."""
    markers: MarkerSettings
    writer: str
    appends_only: bool
    """Non-blocking mode: always an own log file, never a base file."""

    @property
    def rule(self) -> MergeRule:
        return MergeRule.of(self.config)

    @property
    def is_narrow(self) -> bool:
        return len(self.columns) < len(self.schema.field_names)
