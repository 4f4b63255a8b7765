"""A snapshot: the schema, and the slices split into those that need merging and those that do
not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from workers.clock import InstantTime
from workers.concurrency.conflicts import vanished
from workers.errors import MalformedTable, NotFound, SnapshotChanged
from workers.files.meta_columns import META_COLUMNS
from workers.read.file_slice import read_slice, slice_schema
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import current_schema, schema_at
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.timeline import Timeline

_LOOKS_MAX = 3
_Seen = TypeVar("_Seen")


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    schema: TableSchema
    base_only: tuple[str, ...]
    """Base files that no log touches, relative to the table: any Parquet reader reads them as they
    are.
    """
    merged: tuple[FileSlice, ...]
    """Slices with logs."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        alone = tuple(FileSlice("", "", None, path) for path in self.base_only)
        return (*alone, *self.merged)


def plan_snapshot(table: Table, *, as_of: InstantTime | None = None) -> SnapshotPlan:
    """Raises MalformedTable when a table with data has no schema, SnapshotChanged."""
    return _undisturbed(table, lambda timeline: _planned(table, timeline, as_of))


def read_snapshot(
    table: Table, *, as_of: InstantTime | None = None, with_meta_columns: bool = False
) -> pa.Table:
    """All rows in this process, by partition and file group. Raises as `plan_snapshot`."""

    def read(timeline: Timeline) -> pa.Table:
        plan = _planned(table, timeline, as_of)
        empty = slice_schema(plan.schema).empty_table()
        parts = [read_slice(table.storage, table.config, plan.schema, one) for one in plan.slices]
        return pa.concat_tables([empty, *parts])

    rows = _undisturbed(table, read)
    return rows if with_meta_columns else rows.drop_columns(list(META_COLUMNS))


def _undisturbed(table: Table, look: Callable[[Timeline], _Seen]) -> _Seen:
    """What `look` saw, looked at again when a commit was taken back meanwhile (case B16).

    Between two such looks some of that commit's files may have been there and some not.
    """
    for _ in range(_LOOKS_MAX):
        timeline = table.timeline()
        try:
            seen = look(timeline)
        except (NotFound, MalformedTable) as error:
            is_gone = isinstance(error, NotFound) or isinstance(error.__cause__, NotFound)
            if not (is_gone and vanished(timeline.instants, table.timeline().instants)):
                raise
        else:
            if not vanished(timeline.instants, table.timeline().instants):
                return seen
    raise SnapshotChanged("commits are being taken back", table=table.storage.location)


def _planned(table: Table, timeline: Timeline, as_of: InstantTime | None) -> SnapshotPlan:
    view = FileSystemView.load(table, timeline=timeline, as_of=as_of)
    schema = current_schema(table, timeline)
    if as_of is not None and (version := schema_at(table, timeline, as_of=as_of)):
        schema = version.schema
    if schema is None:
        if view.slices:
            raise MalformedTable("no commit carries a schema", table=table.storage.location)
        schema = TableSchema.from_arrow(pa.schema([]), table_name=table.config.name)
    return SnapshotPlan(
        schema=schema,
        base_only=tuple(
            one.base_file for one in view.slices if one.base_file and not one.log_files
        ),
        merged=tuple(one for one in view.slices if one.log_files),
    )
