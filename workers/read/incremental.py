"""Incremental reads: the rows that the commits of a window wrote and that stand at its end.

The window goes by completion time, `since < completed_at <= until`, so that consecutive checkpoints
deliver each commit exactly once (TL12, bug A6). A row belongs to the commit in its
`_hoodie_commit_time`: what compaction and clustering rewrite keeps it and is not new, and a version
that lost against an older row never shows (format page, gotcha 15). Rows that were deleted since do
not show either; `changes` does show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.files.meta_columns import COMMIT_TIME
from workers.files.names import instant_of
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.comparison import is_new_or_different
from workers.read.conformed import with_meta
from workers.read.file_slice import read_slice
from workers.read.history import History
from workers.read.new_defaults import (
    columns_missing,
    gains_defaults,
    has_defaults,
    without_columns,
)
from workers.read.snapshot import schema_for_reading
from workers.read.undisturbed import undisturbed
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.schema_history import schema_at
from workers.table.table import Table
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """A file slice at the end of the window."""

    after: FileSlice
    before: tuple[FileSlice, ...] = ()
    """What its bucket was at the start, where rows must be compared."""


@dataclass(frozen=True, slots=True)
class IncrementalPlan:
    """What a window's rows are read from; each slice can be read on its own."""

    schema: TableSchema
    instants: tuple[InstantTime, ...]
    """Requested times of the window's commits, in the order in which they became visible."""
    slices: tuple[WindowSlice, ...]
    """Those that may hold rows of the window."""
    absent_before: frozenset[str] = frozenset()
    """Columns that the table did not have at the window's start, where they brought values of their
    own into rows that stood.
    """


def plan_incremental(
    table: Table, *, since: InstantTime, until: InstantTime | None = None
) -> IncrementalPlan:
    """Which files to read for the rows that completed after `since`, up to `until`.

    Raises SnapshotExpired when the end of the window was cleaned away, SnapshotChanged.
    """
    return undisturbed(table, lambda timeline: incremental_at(table, timeline, since, until))


def window_rows(
    storage: Storage,
    config: TableConfig,
    plan: IncrementalPlan,
    window_slice: WindowSlice,
    *,
    rule: MergeRule | None = None,
) -> pa.Table:
    """The slice's rows that the window's commits wrote; `rule` as for `read_slice`.

    Raises NotFound, MalformedTable.
    """
    rows = read_slice(storage, config, plan.schema, window_slice.after, rule=rule)
    if not config.compares_rows:
        commits = pa.array(plan.instants, pa.string())
        return rows.filter(pc.is_in(rows.column(COMMIT_TIME), value_set=commits))
    # A late version can change a row whose commit time stays that of a newer one.
    there = without_columns(plan.schema, plan.absent_before)
    older = [
        with_meta(read_slice(storage, config, there, slice_, rule=rule), plan.schema)
        for slice_ in window_slice.before
    ]
    return rows.filter(is_new_or_different(pa.concat_tables([rows.slice(0, 0), *older]), rows))


def incremental_at(
    table: Table, timeline: Timeline, since: InstantTime, until: InstantTime | None
) -> IncrementalPlan:
    """As `plan_incremental`, of a timeline that was read already. Raises NotFound where the table
    changes meanwhile, SnapshotExpired.
    """
    compares = table.config.compares_rows
    history = History.load(table, timeline, earliest=since if compares else until)
    writes = history.writes(since, until)
    instants = tuple(one.requested_at for one in writes)
    slices = history.slices(until)
    holding = [slice_ for slice_ in slices if _may_hold(slice_, set(instants))]
    schema = schema_for_reading(table, timeline, until, has_data=bool(holding))
    before = schema_at(table, timeline, as_of=since) if has_defaults(table.config) else None
    absent: frozenset[str] = frozenset()
    if before is not None and gains_defaults(table.config, before.schema, schema):
        holding = list(slices)
        absent = columns_missing(before.schema, schema)
    windows = tuple(_window_slices(table, history, since, holding))
    return IncrementalPlan(schema, instants, windows, absent)


def _window_slices(
    table: Table, history: History, since: InstantTime, holding: list[FileSlice]
) -> Iterator[WindowSlice]:
    for slice_ in holding:
        before: tuple[FileSlice, ...] = ()
        if table.config.compares_rows:
            before = history.slices(since, groups=history.groups_like([slice_]))
        yield WindowSlice(slice_, before)


def _may_hold(slice_: FileSlice, instants: set[InstantTime]) -> bool:
    """Whether rows of these commits can be in it, by the names and blocks of its files."""
    if slice_.log_files and slice_.late_blocks is not None:
        return True  # A name may hold the base's commit, not the writers'.
    if slice_.log_files and slice_.block_instants is not None:
        return not instants.isdisjoint(slice_.block_instants)
    names = (path.rpartition("/")[2] for path in slice_.files)
    return any(instant_of(name) in instants for name in names)
