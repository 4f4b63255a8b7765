"""Changes (CDC): what each commit of a window inserted, updated and deleted, with both images.

Computed from the file slices before and after each commit, so nothing has to be logged for it, and
any writer's commits count. Changes of one key inside one commit are collapsed. Compaction and
clustering change no row and are passed over.
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
from workers.files.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.comparison import is_new_or_different
from workers.read.conformed import with_meta
from workers.read.file_slice import read_slice, slice_schema
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
    """What one commit did to one partition, or to one file group of it."""

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

    def rows(slices: tuple[FileSlice, ...], absent: frozenset[str]) -> pa.Table:
        there = without_columns(schema, absent)
        parts = [read_slice(storage, config, there, one, rule=rule) for one in slices]
        return with_meta(pa.concat_tables([slice_schema(there).empty_table(), *parts]), schema)

    before = rows(unit.before, unit.absent | unit.new_columns)
    after = rows(unit.after, unit.absent)
    keys = _single(before.column(RECORD_KEY))
    older = pc.index_in(after.column(RECORD_KEY), value_set=keys).cast(pa.int64())
    is_new = pc.is_null(older)
    is_written = pc.equal(after.column(COMMIT_TIME), pa.scalar(unit.instant))
    if config.compares_rows:
        is_written = is_new_or_different(before, after)
    chosen = _positions(pc.or_(is_new, is_written))
    deleted = _positions(
        pc.invert(pc.is_in(before.column(RECORD_KEY), value_set=_single(after.column(RECORD_KEY))))
    )
    ops = pc.if_else(is_new.take(chosen), _INSERT, _UPDATE)
    nothing = pa.nulls(len(deleted), pa.int64())
    images = (
        _images(before, schema, pa.concat_arrays([_single(older.take(chosen)), deleted])),
        _images(after, schema, pa.concat_arrays([chosen, nothing])),
    )
    all_ops = pa.concat_arrays([_single(ops), pa.array([_DELETE] * len(deleted), pa.string())])
    times = pa.repeat(pa.scalar(unit.completed_at, pa.string()), len(all_ops))
    return pa.table([all_ops, times, *images], schema=changes_schema(schema))


def _images(rows: pa.Table, schema: TableSchema, at: pa.Array[Any]) -> pa.Array[Any]:
    """One struct per position; null where the position is."""
    fields = [field.with_nullable(True) for field in schema.arrow]
    data = rows.drop_columns(list(META_COLUMNS))
    columns = [_single(data.column(field.name)).take(at) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(at))


def _positions(mask: Any) -> pa.Array[Any]:
    positions = np.flatnonzero(np.asarray(mask.to_numpy(zero_copy_only=False)))
    return pa.array(positions, pa.int64())


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
        units += _units(history, instant, metadata, absent)
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
    history: History, instant: Instant, metadata: CommitMetadata, absent: frozenset[str]
) -> Iterator[ChangeUnit]:
    completed_at = instant.completed_at
    assert completed_at is not None, instant
    just_before = format_instant(parse_instant(completed_at) - 1)
    for groups in _together(metadata):
        yield ChangeUnit(
            instant.requested_at,
            completed_at,
            history.slices(just_before, groups=groups),
            history.slices(completed_at, groups=groups),
            absent,
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
    before = schema_at(table, history.timeline, as_of=just_before)
    after = TableSchema.from_avro_json(metadata.schema_json)
    if before is None or not gains_defaults(table.config, before.schema, after):
        return
    new_columns = columns_missing(before.schema, after)
    for slice_ in history.slices(completed_at):
        yield ChangeUnit(
            instant.requested_at, completed_at, (slice_,), (slice_,), absent, new_columns
        )


def _together(metadata: CommitMetadata) -> list[list[GroupKey]]:
    """File groups whose rows must be compared together: where groups were replaced, a key may have
    moved from one to another of its partition.
    """
    partitions = {partition for partition, _ in metadata.replaced_groups}
    moved = [[key for key in metadata.file_groups if key[0] == one] for one in sorted(partitions)]
    alone = [[key] for key in sorted(metadata.file_groups) if key[0] not in partitions]
    return [*moved, *alone]
