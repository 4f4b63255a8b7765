"""Incremental reads: the rows that the commits of a window wrote and that stand at its end.

The window goes by completion time, `since < completed_at <= until`, so that consecutive checkpoints
deliver each commit exactly once (TL12, bug A6). A row belongs to the commit in its
`_hoodie_commit_time`: what compaction and clustering rewrite keeps it and is not new, and a version
that lost against an older row never shows (format page, gotcha 15). A row that was published again
belongs to the commit that wrote it first (`republished`). Rows that were deleted since do not show
either; `changes` does show them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from workers.clock import InstantTime
from workers.files.names import parse_name_instant
from workers.merge.rule import MergeRule
from workers.options.index_kind import IndexKind
from workers.options.table_options import TableConfig
from workers.read.comparison import is_new_or_different
from workers.read.conformed import with_meta
from workers.read.file_slice import read_slice, slice_schema
from workers.read.history import History, bucket_number
from workers.read.new_defaults import (
    columns_missing,
    gains_defaults,
    has_defaults,
    without_columns,
)
from workers.read.republished import WindowCommits
from workers.read.snapshot import schema_for_reading
from workers.read.undisturbed import undisturbed
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.schema_history import find_schema_at
from workers.table.table import Table
from workers.table.view import GroupKey
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """A file slice at the end of the window, or several where file groups were replaced: rows of
    these can be in any of the new ones.
    """

    after: tuple[FileSlice, ...]
    before: tuple[FileSlice, ...] = ()
    """What held these rows at the start of the window, where rows must be compared."""


@dataclass(frozen=True, slots=True)
class IncrementalPlan:
    """What a window's rows are read from; each of its slices can be read on its own."""

    schema: TableSchema
    commits: WindowCommits
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

    def rows(slices: tuple[FileSlice, ...], schema: TableSchema) -> pa.Table:
        tables = [read_slice(storage, config, schema, one, rule=rule) for one in slices]
        return pa.concat_tables([slice_schema(schema).empty_table(), *tables])

    after = rows(window_slice.after, plan.schema)
    if not config.compares_rows:
        return after.filter(plan.commits.expression)
    # A late version can change a row whose commit time stays that of a newer one.
    there = without_columns(plan.schema, plan.absent_before)
    before = with_meta(rows(window_slice.before, there), plan.schema)
    return after.filter(is_new_or_different(before, after))


def incremental_at(
    table: Table, timeline: Timeline, since: InstantTime, until: InstantTime | None
) -> IncrementalPlan:
    """As `plan_incremental`, of a timeline that was read already. Raises NotFound where the table
    changes meanwhile, SnapshotExpired.
    """
    config, compares = table.config, table.config.compares_rows
    history = History.load(table, timeline, earliest=since if compares else until)
    may_republish = config.is_merge_on_read and config.index is IndexKind.BUCKET and not compares
    republishing = history.republishing(since, until) if may_republish else {}
    writes = [one.requested_at for one in history.writes(since, until)]
    commits = WindowCommits(tuple(one for one in writes if one not in republishing), republishing)
    slices = history.slices(until)
    holding = [slice_ for slice_ in slices if _may_hold(slice_, set(writes))]
    schema = schema_for_reading(table, timeline, until, has_data=bool(holding))
    before = find_schema_at(table, timeline, as_of=since) if has_defaults(config) else None
    absent: frozenset[str] = frozenset()
    if before is not None and gains_defaults(config, before.schema, schema):
        holding = list(slices)
        absent = columns_missing(before.schema, schema)
    windows: Iterable[WindowSlice] = (WindowSlice((one,)) for one in holding)
    if compares:
        windows = _compared_slices(history, since, slices, holding)
    return IncrementalPlan(schema, commits, tuple(windows), absent)


def _compared_slices(
    history: History,
    since: InstantTime,
    slices: Collection[FileSlice],
    holding: Collection[FileSlice],
) -> Iterator[WindowSlice]:
    """A file group that stands at both ends is compared with itself, and those that came with those
    that went from their bucket or, under another index, from their partition.
    """
    then = set(history.groups_at(since))
    came: dict[tuple[str, int | None], list[FileSlice]] = {}
    for slice_ in holding:
        group = slice_.partition, slice_.file_id
        if group in then:
            yield WindowSlice((slice_,), history.slices(since, groups=[group]))
        else:
            came.setdefault(_home(history, group), []).append(slice_)
    went: dict[tuple[str, int | None], list[GroupKey]] = {}
    for group in then - {(one.partition, one.file_id) for one in slices}:
        went.setdefault(_home(history, group), []).append(group)
    for home, after in came.items():
        if home in went:
            yield WindowSlice(tuple(after), history.slices(since, groups=went[home]))
        else:
            yield from (WindowSlice((one,)) for one in after)


def _home(history: History, group: GroupKey) -> tuple[str, int | None]:
    return group[0], bucket_number(history.table.config, group[1])


def _may_hold(slice_: FileSlice, instants: set[InstantTime]) -> bool:
    """Whether rows of these commits can be in it, by the names and blocks of its files."""
    if slice_.log_files and slice_.late_blocks is not None:
        return True  # A name may hold the base's commit, not the writers'.
    if slice_.log_files and slice_.block_instants is not None:
        return not instants.isdisjoint(slice_.block_instants)
    names = (path.rpartition("/")[2] for path in slice_.files)
    return any(parse_name_instant(name) in instants for name in names)
