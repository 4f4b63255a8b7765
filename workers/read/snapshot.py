"""A snapshot: the schema, and the slices split into those that need merging and those that do
not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.files.meta_columns import META_COLUMNS
from workers.read.file_slice import read_slice, slice_schema
from workers.read.history import History
from workers.read.undisturbed import undisturbed
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import find_schema_at, load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """What a snapshot is read from: slices by partition and file group, each readable alone."""

    schema: TableSchema
    slices: tuple[FileSlice, ...]

    @property
    def base_only(self) -> tuple[FileSlice, ...]:
        """Slices that no log touches: any Parquet reader reads their base files as they are."""
        return tuple(one for one in self.slices if not one.log_files)

    @property
    def merged(self) -> tuple[FileSlice, ...]:
        """Slices with logs."""
        return tuple(one for one in self.slices if one.log_files)


def plan_snapshot(
    table: Table, *, as_of: InstantTime | None = None, is_read_optimized: bool = False
) -> SnapshotPlan:
    """`is_read_optimized` leaves the logs away: rows as of each slice's base file.

    Raises MalformedTable when a table with data has no schema, SnapshotChanged, SnapshotExpired.
    """
    return undisturbed(
        table,
        lambda timeline: planned_at(
            table, timeline, as_of=as_of, is_read_optimized=is_read_optimized
        ),
    )


def read_snapshot(
    table: Table,
    *,
    as_of: InstantTime | None = None,
    is_read_optimized: bool = False,
    with_meta_columns: bool = False,
    columns: Collection[str] | None = None,
) -> pa.Table:
    """All rows, read in this process, by partition and file group, with those of `columns` that
    there are.

    Raises as `plan_snapshot`.
    """

    def read(timeline: Timeline) -> pa.Table:
        plan = planned_at(table, timeline, as_of=as_of, is_read_optimized=is_read_optimized)
        empty = slice_schema(plan.schema).empty_table()
        if columns is not None:
            empty = empty.select([name for name in empty.column_names if name in columns])
        storage, config, schema = table.storage, table.config, plan.schema
        parts = [read_slice(storage, config, schema, one, columns=columns) for one in plan.slices]
        return pa.concat_tables([empty, *parts])

    rows = undisturbed(table, read)
    return rows if with_meta_columns else rows.drop_columns(list(META_COLUMNS))


def schema_for_reading(
    table: Table, timeline: Timeline, as_of: InstantTime | None, *, has_data: bool
) -> TableSchema:
    """The schema that rows have as of then. Raises MalformedTable."""
    schema = load_schema(table, timeline)
    if as_of is not None and (version := find_schema_at(table, timeline, as_of=as_of)):
        schema = version.schema
    if schema is not None:
        return schema
    if has_data:
        raise MalformedTable("no commit carries a schema", table=table.storage.location)
    return TableSchema.from_arrow(pa.schema([]), table_name=table.config.name)


def planned_at(
    table: Table,
    timeline: Timeline,
    *,
    as_of: InstantTime | None = None,
    is_read_optimized: bool = False,
) -> SnapshotPlan:
    """As `plan_snapshot`, of a timeline that was read already. Raises NotFound where the table
    changes meanwhile, MalformedTable, SnapshotExpired.
    """
    if as_of is None:
        slices = FileSystemView.load(table, timeline=timeline).slices
    else:
        slices = History.load(table, timeline, earliest=as_of).slices(as_of)
    if is_read_optimized:
        slices = tuple(replace(one, log_files=()) for one in slices if one.base_file)
    schema = schema_for_reading(table, timeline, as_of, has_data=bool(slices))
    return SnapshotPlan(schema, slices)
