"""Which rows differ, cell by cell: between two moments of a table, or before and after one commit.

Only file groups that commits touched in between are looked at, and of these first the keys alone;
whole rows are fetched for the keys that can differ, as many as are wanted. Rows come group by
group, in no other order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import InvalidInput, NotFound
from workers.files.meta_columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from workers.read.changes import ChangeUnit, plan_changes
from workers.read.comparison import differs
from workers.read.conformed import with_meta
from workers.read.file_slice import merge_slice_batches
from workers.read.history import History
from workers.read.moved_rows import NOWHERE, counterparts, groups_together, in_partition, positions
from workers.read.new_defaults import without_columns
from workers.read.snapshot import schema_for_reading
from workers.read.undisturbed import expired, undisturbed
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.table.view import GroupKey
from workers.timeline.instant import CompletedInstant
from workers.timeline.metadata import CommitMetadata, read_commit_metadata
from workers.timeline.timeline import Timeline

OP, KEY, PARTITION, BEFORE, AFTER, CHANGED = (
    "op", "key", "partition", "before", "after", "changed",
)  # fmt: skip
INSERTED, UPDATED, DELETED = "i", "u", "d"
CANDIDATES_MAX = 20_000
"""Rows of one piece that are compared value by value; what lies beyond is left out."""


@dataclass(frozen=True, slots=True)
class DifferencePlan:
    """What differences are computed from; each unit can be computed on its own."""

    table: Table
    schema: TableSchema
    units: tuple[ChangeUnit, ...]
    of_commit: InstantTime | None
    """The commit whose rows count although their values are those of before; None for moments."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the rows, in their order."""
        return tuple(self.schema.field_names)


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Differences of one unit."""

    rows: pa.Table
    """`op` (i, u, d), `key`, `partition`, `before` and `after` (structs, null where there is no
    image), `changed` (names of columns, of updates alone).
    """
    is_whole: bool
    """False where more rows of it may differ."""


def plan_commit(table: Table, instant: InstantTime) -> DifferencePlan:
    """For what one completed commit inserted, updated and deleted.

    Raises InvalidInput for an instant that is not a completed write, SnapshotExpired where what
    was there before it was cleaned away, MalformedTable.
    """
    completed_at, _ = read_commit(table, instant)
    just_before = format_instant(parse_instant(completed_at) - 1)
    plan = plan_changes(table, since=just_before, until=completed_at)
    units = tuple(one for one in plan.units if one.instant == instant)
    return DifferencePlan(table, plan.schema, units, instant)


def read_commit(table: Table, instant: InstantTime) -> tuple[InstantTime, CommitMetadata]:
    """Return completion time and metadata of a completed write, active or archived. Raises
    InvalidInput where there is none, MalformedTable.
    """
    done = table.timeline().find(instant)
    if isinstance(done, CompletedInstant) and done.action.writes_data:
        return done.completed_at, read_instant(table, done)
    for archived in table.find_archived(instant, None):
        if archived.instant.action.writes_data and archived.metadata is not None:
            return archived.instant.completed_at, read_commit_metadata(archived.metadata)
    raise InvalidInput("no completed write has this time", instant=instant)


def of_group(plan: DifferencePlan, file_group: GroupKey) -> DifferencePlan:
    """The plan for one file group alone: a row that moved is an insert or a delete in it."""

    def mine(slices: tuple[FileSlice, ...]) -> tuple[FileSlice, ...]:
        return tuple(part for part in slices if (part.partition, part.file_id) == file_group)

    units = (replace(unit, before=mine(unit.before), after=mine(unit.after)) for unit in plan.units)
    return replace(plan, units=tuple(unit for unit in units if unit.before or unit.after))


def plan_moments(table: Table, earlier: InstantTime, later: InstantTime) -> DifferencePlan:
    """For the rows that are other ones at the completion time `later` than at `earlier`.

    Raises InvalidInput where `later` is not later, SnapshotExpired, SnapshotChanged,
    MalformedTable.
    """
    if later <= earlier:
        raise InvalidInput("the later moment is not later", earlier=earlier, later=later)
    return undisturbed(table, lambda timeline: _between(table, timeline, earlier, later))


def unit_differences(
    plan: DifferencePlan, unit: ChangeUnit, compared: Collection[str], rows_max: int
) -> UnitRows:
    """At most `rows_max` rows that differ in one of the columns `compared`, of a commit also those
    that it wrote anew.

    Raises SnapshotExpired where a file is gone, MalformedTable, UnsupportedTable.
    """
    try:
        return _differences(plan, unit, compared, rows_max)
    except NotFound as error:
        raise expired(error) from error


def image_type(schema: TableSchema) -> pa.StructType:
    """The type of `before` and `after`: the table's columns, each of which may be null."""
    return pa.struct([field.with_nullable(True) for field in schema.arrow])


def difference_schema(schema: TableSchema) -> pa.Schema:
    """What `unit_differences` gives for a table of this schema."""
    image, text = image_type(schema), pa.string()
    return pa.schema(
        [
            *((name, text) for name in (OP, KEY, PARTITION)),
            (BEFORE, image),
            (AFTER, image),
            (CHANGED, pa.list_(text)),
        ]
    )


def _between(
    table: Table, timeline: Timeline, earlier: InstantTime, later: InstantTime
) -> DifferencePlan:
    history = History.load(table, timeline, earliest=earlier)
    commits = [metadata for _, metadata in history.written(earlier, later)]
    has_data = any(one.file_groups for one in commits)
    schema = schema_for_reading(table, timeline, later, has_data=has_data)
    units = tuple(
        ChangeUnit(
            later,
            later,
            history.slices(earlier, groups=groups),
            history.slices(later, groups=groups),
        )
        for groups in groups_together(table.config, commits, schema.field_names)
    )
    return DifferencePlan(table, schema, units, None)


def _differences(
    plan: DifferencePlan, unit: ChangeUnit, compared: Collection[str], rows_max: int
) -> UnitRows:
    old_schema = without_columns(plan.schema, unit.absent | unit.new_columns)
    new_schema = without_columns(plan.schema, unit.absent)
    marks = [COMMIT_TIME, RECORD_KEY, PARTITION_PATH]
    before = _rows(plan, old_schema, unit.before, marks)
    after = _rows(plan, new_schema, unit.after, marks)
    candidates = _candidates(plan, unit, before, after)
    is_whole = len(candidates) <= CANDIDATES_MAX
    keys = candidates.slice(0, CANDIDATES_MAX)
    older = _rows(plan, old_schema, unit.before, None, keys)
    newer = _rows(plan, new_schema, unit.after, None, keys)
    rows = _compared(plan, older, newer, compared)
    return UnitRows(rows.slice(0, rows_max), is_whole and rows.num_rows <= rows_max)


def _rows(
    plan: DifferencePlan,
    schema: TableSchema,
    slices: Sequence[FileSlice],
    columns: list[str] | None,
    keys: pa.Array[Any] | None = None,
) -> pa.Table:
    """Meta columns first, under the plan's schema; of these keys alone where some are given."""
    table, parts = plan.table, []
    for slice_ in slices:
        for batch in merge_slice_batches(
            table.storage, table.config, schema, slice_, columns=columns
        ):
            rows = in_partition(pa.Table.from_batches([batch]), slice_.partition)
            if keys is not None:
                rows = rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=keys))
            parts.append(rows)
    if columns is None:
        empty = with_meta(plan.schema.arrow.empty_table(), plan.schema)
        return pa.concat_tables([empty, *(with_meta(part, plan.schema) for part in parts)])
    return pa.concat_tables(
        [pa.table({name: pa.array([], pa.string()) for name in columns}), *parts]
    )


def _candidates(
    plan: DifferencePlan, unit: ChangeUnit, before: pa.Table, after: pa.Table
) -> pa.Array[Any]:
    """Keys of rows that came, went, or may hold other values."""
    at, is_gone = counterparts(before, after)
    is_candidate: Any = at == NOWHERE
    if plan.table.config.compares_rows or unit.new_columns:
        # A late version can change a row whose commit time stays that of a newer one.
        is_candidate = np.ones(after.num_rows, np.bool_)
    elif plan.of_commit is not None:
        is_candidate = is_candidate | _mask(_written(after, plan.of_commit))
    else:
        then = _taken(before, COMMIT_TIME, positions(at))
        is_candidate = is_candidate | _mask(differs(then, _single(after.column(COMMIT_TIME))))
    changed, gone = (
        _single(rows.column(RECORD_KEY)).filter(pa.array(mask))
        for rows, mask in ((after, is_candidate), (before, is_gone))
    )
    return pa.concat_arrays([changed, gone])


def _compared(
    plan: DifferencePlan, older: pa.Table, newer: pa.Table, compared: Collection[str]
) -> pa.Table:
    at, is_gone = counterparts(older, newer)
    then = older.take(positions(at))
    changes = {
        name: _mask(differs(then.column(name), newer.column(name)))
        for name in plan.columns
        if name in compared
    }
    is_new = at == NOWHERE
    is_shown = is_new | np.logical_or.reduce([is_new, *changes.values()])
    if plan.of_commit is not None:
        is_shown |= _mask(_written(newer, plan.of_commit))
    chosen = np.flatnonzero(is_shown)
    gone = np.flatnonzero(is_gone)
    ops = [INSERTED if is_new[one] else UPDATED for one in chosen]
    names = [
        None if is_new[one] else [name for name, mask in changes.items() if mask[one]]
        for one in chosen
    ]
    new_at = positions(np.concatenate([chosen, np.full(len(gone), NOWHERE)]))
    old_at = positions(np.concatenate([at[chosen], gone]))
    schema = difference_schema(plan.schema)
    return pa.table(
        [
            pa.array([*ops, *[DELETED] * len(gone)], pa.string()),
            *(
                pc.coalesce(_taken(newer, name, new_at), _taken(older, name, old_at))
                for name in (RECORD_KEY, PARTITION_PATH)
            ),
            _images(older, plan.schema, old_at),
            _images(newer, plan.schema, new_at),
            pa.array([*names, *[None] * len(gone)], pa.list_(pa.string())),
        ],
        schema=schema,
    )


def _written(rows: pa.Table, instant: InstantTime) -> Any:
    """Per row whether this commit wrote it."""
    is_its: Any = pc.equal(rows.column(COMMIT_TIME), pa.scalar(instant))
    return pc.fill_null(is_its, False)


def _taken(rows: pa.Table, name: str, at: pa.Array[Any]) -> pa.Array[Any]:
    return _single(rows.column(name)).take(at)


def _images(rows: pa.Table, schema: TableSchema, at: pa.Array[Any]) -> pa.Array[Any]:
    """A struct per position; null where the position is."""
    fields = list(image_type(schema))
    columns = [_taken(rows, field.name, at) for field in fields]
    if not fields:
        return pa.nulls(len(at), image_type(schema))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(at))


def one_image(rows: pa.Table, schema: TableSchema) -> pa.Array[Any]:
    """The first of the rows as a struct, or one null where there is none."""
    at = pa.array([0 if rows.num_rows else None], pa.int64())
    return _images(
        rows.drop_columns([n for n in META_COLUMNS if n in rows.column_names]), schema, at
    )


def differing_columns(older: pa.Table, newer: pa.Table, names: Collection[str]) -> Iterator[str]:
    """Names of columns whose values differ, of two tables with a row each."""
    for name in newer.column_names:
        if name in names and _mask(differs(older.column(name), newer.column(name)))[0]:
            yield name


def _mask(flags: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(_single(flags).to_numpy(zero_copy_only=False), np.bool_)


def _single(column: Any) -> pa.Array[Any]:
    single = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    assert isinstance(single, pa.Array), "more text than one Arrow array holds"
    return single
