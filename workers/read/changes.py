"""Changes (CDC): what each commit of a window inserted, updated and deleted, with both images.

Computed from the file slices before and after each commit, so nothing has to be logged for it, and
any writer's commits count. Changes of one key inside one commit are collapsed, also where the key
goes to another partition. Commits that change no row are passed over: compaction, clustering, and
commits that publish rows of another one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime, format_instant, parse_instant
from workers.files.meta_columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.comparison import differs, is_new_or_different
from workers.read.conformed import with_meta
from workers.read.file_slice import read_slice, slice_schema
from workers.read.history import History
from workers.read.moved_rows import (
    NOWHERE,
    Mask,
    Positions,
    groups_together,
    in_partition,
    pair_moved,
    positions,
)
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
from workers.table.schema_history import find_schema_at
from workers.table.table import Table
from workers.table.view import GroupKey
from workers.timeline.instant import Instant
from workers.timeline.metadata import CommitMetadata
from workers.timeline.timeline import Timeline

OP, TS, BEFORE, AFTER = "op", "ts", "before", "after"
_INSERT, _UPDATE, _DELETE = "i", "u", "d"
REWRITES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
"""Kinds of writes that change no row."""


@dataclass(frozen=True, slots=True)
class ChangeUnit:
    """What one commit did to some file groups: all between which it can have moved keys."""

    instant: InstantTime
    completed_at: InstantTime
    before: tuple[FileSlice, ...]
    after: tuple[FileSlice, ...]
    absent: frozenset[str] = frozenset()
    """Columns of the window's end that were not there then: files may hold values of others that
    had the same names and were dropped.
    """
    new_columns: frozenset[str] = frozenset()
    """Columns that this commit gave to rows that stood, with a value of their own."""
    hides_columns: bool = False
    """Whether the rows had columns then that the images lack: they may differ in these alone."""


@dataclass(frozen=True, slots=True)
class ChangesPlan:
    """What a window's changes are computed from; each unit can be computed on its own."""

    schema: TableSchema
    units: tuple[ChangeUnit, ...]
    """In the order of the commits' completion."""


def plan_changes(
    table: Table, *, since: InstantTime, until: InstantTime | None = None
) -> ChangesPlan:
    """Which slices to compare for the changes of rows that completed after `since`, up to `until`.

    Raises SnapshotExpired when a slice before or after a commit was cleaned away.
    """
    return undisturbed(table, lambda timeline: _planned(table, timeline, since, until))


def read_changes(table: Table, *, since: InstantTime, until: InstantTime | None = None) -> pa.Table:
    """Columns `op` (i, u, d), `ts` (completion time), `before` and `after` (structs of the table's
    columns, null where there is no image). Raises as `plan_changes`.
    """

    def read(timeline: Timeline) -> pa.Table:
        plan = _planned(table, timeline, since, until)
        parts = [unit_changes(table.storage, table.config, plan.schema, u) for u in plan.units]
        return pa.concat_tables([changes_schema(plan.schema).empty_table(), *parts])

    return undisturbed(table, read)


def changes_schema(schema: TableSchema) -> pa.Schema:
    """The columns that `read_changes` gives for a table of this schema."""
    image = pa.struct([field.with_nullable(True) for field in schema.arrow])
    text = pa.string()
    return pa.schema([(OP, text), (TS, text), (BEFORE, image), (AFTER, image)])


def unit_changes(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    unit: ChangeUnit,
    *,
    rule: MergeRule | None = None,
) -> pa.Table:
    """The unit's changes, as `read_changes` gives them; `rule` as for `read_slice`. Raises
    NotFound, MalformedTable, UnsupportedTable.
    """
    file_groups = sorted({(one.partition, one.file_id) for one in (*unit.before, *unit.after)})
    parts = [_of_group(storage, config, schema, unit, one, rule) for one in file_groups]
    starts = np.cumsum([0, *(one.old.num_rows for one in parts)])
    counted = zip(parts, starts, strict=False)
    at, is_gone = pair_moved(
        pa.concat_tables([one.old.select([PARTITION_PATH, RECORD_KEY]) for one in parts]),
        pa.concat_tables([one.new.select([PARTITION_PATH, RECORD_KEY]) for one in parts]),
        np.concatenate([np.where(one.at == NOWHERE, NOWHERE, one.at + n) for one, n in counted]),
        np.concatenate([one.is_gone for one in parts]),
    )

    def rows_of(number: int, rows_at: Positions) -> pa.Table:
        return parts[number].old.take(positions(rows_at - starts[number]))

    # Images are taken file group by file group: all together may not go into one array of text.
    # Deletes first: where keys differ by partition alone, a row that stays then comes last.
    events = [changes_schema(schema).empty_table()]
    for number in range(len(parts)):
        mine = np.arange(starts[number], starts[number + 1])
        old = rows_of(number, mine[is_gone[mine]])
        events.append(_events(_DELETE, unit, schema, old, None))
    drops_same = config.compares_rows or not unit.hides_columns
    first = 0
    for part in parts:
        mine_at = at[first : first + part.new.num_rows]
        first += part.new.num_rows
        home = np.searchsorted(starts, mine_at, side="right") - 1  # -1 for NOWHERE.
        for number in np.unique(home):
            chosen = np.flatnonzero(home == number)
            new = part.new.take(positions(chosen))
            if number == NOWHERE:
                events.append(_events(_INSERT, unit, schema, None, new))
                continue
            old = rows_of(number, mine_at[chosen])
            if drops_same:
                differs_at = pa.array(~_is_same(old, new))
                old, new = old.filter(differs_at), new.filter(differs_at)
            events.append(_events(_UPDATE, unit, schema, old, new))
    return pa.concat_tables([events[0], *(one for one in events if one.num_rows)])


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one file group that the commit may have changed, before and after."""

    old: pa.Table
    new: pa.Table
    at: Positions
    """Of each later row among the earlier ones."""
    is_gone: Mask
    """Which of the earlier rows are not in the file group any longer."""


def _of_group(
    storage: Storage,
    config: TableConfig,
    schema: TableSchema,
    unit: ChangeUnit,
    file_group: GroupKey,
    rule: MergeRule | None,
) -> _Part:
    def rows(slices: tuple[FileSlice, ...], absent: frozenset[str]) -> pa.Table:
        there = without_columns(schema, absent)
        mine = [one for one in slices if (one.partition, one.file_id) == file_group]
        parts = [read_slice(storage, config, there, one, rule=rule) for one in mine]
        merged = with_meta(pa.concat_tables([slice_schema(there).empty_table(), *parts]), schema)
        return in_partition(merged, file_group[0])

    before = rows(unit.before, unit.absent | unit.new_columns)
    after = rows(unit.after, unit.absent)
    old_keys, new_keys = _single(before.column(RECORD_KEY)), _single(after.column(RECORD_KEY))
    is_its: Any = pc.equal(after.column(COMMIT_TIME), pa.scalar(unit.instant))
    is_written = pc.fill_null(is_its, False)
    if config.compares_rows:
        is_written = is_new_or_different(before, after)
    is_new = pc.invert(pc.is_in(new_keys, value_set=old_keys))
    new = after.filter(pc.or_(is_new, is_written))
    keys = _single(new.column(RECORD_KEY))
    is_gone = pc.invert(pc.is_in(old_keys, value_set=new_keys))
    is_met = pc.or_(is_gone, pc.is_in(old_keys, value_set=keys))
    old = before.filter(is_met)
    position: Any = pc.index_in(keys, value_set=_single(old.column(RECORD_KEY)))
    at = pc.fill_null(position, NOWHERE).to_numpy().astype(np.int64)
    return _Part(old, new, at, _mask(is_gone.filter(is_met)))


def _is_same(old: pa.Table, new: pa.Table) -> Mask:
    """Per row whether both tables have the same values."""
    same = np.ones(new.num_rows, np.bool_)
    for name in new.column_names:
        if name not in META_COLUMNS:
            same &= ~_mask(differs(old.column(name), new.column(name)))
    return same


def _events(
    op: str, unit: ChangeUnit, schema: TableSchema, old: pa.Table | None, new: pa.Table | None
) -> pa.Table:
    """One change per row; None where there is no image."""
    rows = next(one.num_rows for one in (old, new) if one is not None)
    texts: Any = (pa.repeat(pa.scalar(text, pa.string()), rows) for text in (op, unit.completed_at))
    images = (_images(one, schema, rows) for one in (old, new))
    return pa.table([*texts, *images], schema=changes_schema(schema))


def _images(rows: pa.Table | None, schema: TableSchema, count: int) -> pa.Array[Any]:
    fields = [field.with_nullable(True) for field in schema.arrow]
    if rows is None:
        return pa.nulls(count, pa.struct(fields))
    columns = [_single(rows.column(field.name)) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _mask(flags: Any) -> Mask:
    return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)


def _single(column: Any) -> pa.Array[Any]:
    single = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    assert isinstance(single, pa.Array), "more text than one Arrow array holds"
    return single


def _planned(
    table: Table, timeline: Timeline, since: InstantTime, until: InstantTime | None
) -> ChangesPlan:
    history = History.load(table, timeline, earliest=since)
    changing = [
        (instant, metadata)
        for instant, metadata in history.written(since, until)
        if not (metadata.compacted or metadata.operation_type in REWRITES)
    ]
    has_data = any(metadata.file_groups for _, metadata in changing)
    schema = schema_for_reading(table, timeline, until, has_data=has_data)
    units: list[ChangeUnit] = []
    for (instant, metadata), absent in zip(changing, _absent(schema, changing), strict=True):
        units += _units(history, schema, instant, metadata, absent)
        units += _default_units(table, history, instant, metadata, absent)
    return ChangesPlan(schema, tuple(units))


def _absent(
    schema: TableSchema, written: Sequence[tuple[Instant, CommitMetadata]]
) -> list[frozenset[str]]:
    """Per commit the columns that it or a later one lacks: what they hold now came after that."""
    names = frozenset(schema.field_names)
    absent: frozenset[str] = frozenset()
    absent_by_commit = []
    for _, metadata in reversed(written):
        if metadata.schema_json:
            absent |= names - _column_names(metadata.schema_json)
        absent_by_commit.append(absent)
    return absent_by_commit[::-1]


@lru_cache(maxsize=64)
def _column_names(schema_json: str) -> frozenset[str]:
    return frozenset(TableSchema.from_avro_json(schema_json).field_names)


def _units(
    history: History,
    schema: TableSchema,
    instant: Instant,
    metadata: CommitMetadata,
    absent: frozenset[str],
) -> Iterator[ChangeUnit]:
    completed_at = instant.completed_at
    assert completed_at is not None, instant
    just_before = format_instant(parse_instant(completed_at) - 1)
    names = _column_names(metadata.schema_json) if metadata.schema_json else frozenset()
    hides_columns = bool(names & absent or names - frozenset(schema.field_names))
    for groups in groups_together(history.table.config, [metadata], schema.field_names):
        before = history.slices(just_before, groups=groups)
        after = history.slices(completed_at, groups=groups)
        if before or after:
            yield ChangeUnit(
                instant.requested_at,
                completed_at,
                before,
                after,
                absent,
                hides_columns=hides_columns,
            )


def _default_units(
    table: Table,
    history: History,
    instant: Instant,
    metadata: CommitMetadata,
    absent: frozenset[str],
) -> Iterator[ChangeUnit]:
    """Every row that stood when a commit declared a column group with defaults."""
    if not (has_defaults(table.config) and metadata.schema_json) or metadata.file_groups:
        return
    completed_at = instant.completed_at
    assert completed_at is not None, instant
    just_before = format_instant(parse_instant(completed_at) - 1)
    before = find_schema_at(table, history.timeline, as_of=just_before)
    after = TableSchema.from_avro_json(metadata.schema_json)
    if before is None or not gains_defaults(table.config, before.schema, after):
        return
    new_columns = columns_missing(before.schema, after)
    for slice_ in history.slices(completed_at):
        yield ChangeUnit(
            instant.requested_at, completed_at, (slice_,), (slice_,), absent, new_columns
        )
