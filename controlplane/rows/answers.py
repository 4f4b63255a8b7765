"""Rows as pages and the API show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Op = Literal["inserted", "updated", "deleted", "written", "stood"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumn:
    """A column of the table."""

    name: str
    type: str
    """As CREATE TABLE names it."""
    is_masked: bool
    """Whether it, or a field in it, is shown as the mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row as of the moment that was asked for."""

    key: str
    """Its record key."""
    partition: str
    commit: str
    """The instant of the commit that wrote it."""
    cells: list[Any]
    """One for each of the columns. Times as ISO 8601, decimals and binaries (base64) as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Some rows of one moment of a table, in the order in which they are stored."""

    as_of: str | None
    """Null for the latest rows. Pages behind the first are of the moment of the first."""
    is_older: bool
    """A commit came since the first page, and is not in these rows."""
    next_cursor: str | None
    """Hand it back with the same filter for the rows behind these; null where there are none, or
    too many before them.
    """
    columns: list[RowColumn]
    rows: list[StoredRow]
    is_cut: bool
    """Whether there are more rows than these."""
    cut_by: str
    """`rows` or `bytes`, what stopped it; empty where these are all."""
    slices_read: int
    """File slices that may hold such rows."""
    slices: int
    """All that the table had then."""
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNulls:
    """A column and how many of its values are null, by the statistics of base files."""

    name: str
    type: str
    """As CREATE TABLE names it."""
    is_masked: bool
    nulls: int | None
    """Null where statistics do not count them, and for a masked column."""
    null_pct: float | None
    """Percent of the rows in the base files that were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlanRow:
    """A file slice of a read."""

    partition: str
    file_id: str
    left_out_by: str
    """`partition`, `bucket` or `statistics of` some columns; empty for a slice that is read."""
    groups_read: int | None
    """Row groups of its base file that are read."""
    groups: int | None
    logs: int
    bytes: int
    """To read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPlan:
    """What a read of rows with a filter opens and leaves out, and the columns of the table."""

    columns: list[ColumnNulls]
    rows: int
    """In the base files whose footers were read. Log files are not counted."""
    files_read: int
    files: int
    log_files: int
    slices_read: int
    slices: int
    bytes: int
    """To read."""
    left_out: Mapping[str, int]
    """Slices by the reason for which they are left out."""
    listed: list[SlicePlanRow]
    """Slices that are read first; 200 at most."""
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row that is another one than before."""

    op: Op
    key: str
    partition: str
    before: Mapping[str, Any] | None
    """By column; null where there was no row."""
    after: Mapping[str, Any] | None
    """By column; null where there is no row any more."""
    changed: list[str]
    """Columns of an updated row whose values differ; a masked column is never among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroup:
    """A file group that a commit touched, with the counts of its writer."""

    partition: str
    file_id: str
    inserts: int
    updates: int
    deletes: int
    bytes: int
    """Written."""
    is_replaced: bool
    """The commit took this file group away, with the rows in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCounts:
    """What the writer of a commit counted over all file groups."""

    inserts: int
    updates: int
    deletes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Rows that differ, piece by piece of the table, in no other order."""

    columns: list[RowColumn]
    rows: list[ChangedRow]
    is_cut: bool
    """Whether more rows than these may differ."""
    cut_by: str
    """`rows` or `bytes`; empty where these are all."""
    took_ms: int
    changed_columns: Mapping[str, int]
    """Updated rows among these by the column that differs; masked columns are left out."""
    groups: list[ChangedGroup]
    """File groups that the commit touched, the most rows first; 200 at most."""
    group_count: int
    writer_counts: CommitCounts | None
    """By the metadata of the commit: also rows that are not listed here. Null for two times."""
    stream_columns: list[str]
    """The columns that the stream of the commit writes; empty for other commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersionRow:
    """What one commit made of a row."""

    instant: str
    completed_at: str | None
    """Null for a commit before those that were searched."""
    writer: str
    stream: str
    operation_type: str
    """What kind of write it was, such as `upsert`, `delete_partition` or `insert_overwrite`."""
    operation: str
    """Id of the operation that made the commit; empty for a write of another program."""
    requested_by: str
    """The user who requested that operation."""
    op: Op
    """`written`: with the same values, as far as they are seen, or over unknown ones. `stood`:
    was there before the commits that were searched.
    """
    partition: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changed: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersions:
    """Every version of a row that is known, newest first."""

    key: str
    columns: list[RowColumn]
    versions: list[RowVersionRow]
    is_cut: bool
    """Whether there may be older ones."""
    cut_by: str
    """`versions`, `time`, `bytes`, `cleaned` or `archived`."""
    took_ms: int
