"""A snapshot: the schema, and the slices split into those that need merging and those that do
not.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable, UnsupportedTable
from workers.files.meta_columns import META_COLUMNS
from workers.read.file_slice import read_slice
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import current_schema, schema_at
from workers.table.table import Table
from workers.table.view import FileSystemView


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
    """Raises MalformedTable when a table with data has no schema."""
    if table.config.timeline_layout == 1 and table.config.is_merge_on_read:
        raise UnsupportedTable("merge-on-read tables of version 6 are not read yet")
    view = FileSystemView.load(table, as_of=as_of)
    schema = current_schema(table, view.timeline)
    if as_of is not None and (version := schema_at(table, view.timeline, as_of=as_of)):
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


def read_snapshot(
    table: Table, *, as_of: InstantTime | None = None, with_meta_columns: bool = False
) -> pa.Table:
    """All rows in this process, by partition and file group."""
    plan = plan_snapshot(table, as_of=as_of)
    parts = [read_slice(table.storage, table.config, plan.schema, one) for one in plan.slices]
    if not parts:
        names = [] if not with_meta_columns else list(META_COLUMNS)
        meta = [pa.field(name, pa.string()) for name in names]
        return pa.schema([*meta, *plan.schema.arrow]).empty_table()
    rows = pa.concat_tables(parts)
    return rows if with_meta_columns else rows.drop_columns(list(META_COLUMNS))
