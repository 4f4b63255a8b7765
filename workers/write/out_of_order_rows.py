"""The rows of a write that other engines would merge in another order.

Logs of one file group are merged here in the order in which their writers completed, by Apache Hudi
and hudi-rs in the order in which they were requested. If a commit is out of order, and a key that
both wrote comes out differently, its row or delete is republished by an instant that was requested
after both. To merge a row twice is to merge it once, so that for Sluice nothing changes.

It comes out the same, and nothing is written, where two rows compete by ordering values of their
own, or bring no column in common. For two rows with one ordering value, for rows that go by commit
time and for deletes by key the later one counts.

A whole row also has null in the columns that it does not know, because others added them since its
write began. hudi-rs keeps the value that the row before has there. So such rows are written again
with these columns, in any order of request. If the commit with such a column was requested first,
completes last and loses, the row that counts is the other's: that one is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.files.base_file import read_base_file
from workers.files.log_block import AvroData, ParquetData
from workers.files.meta_columns import COMMIT_SEQNO, META_COLUMNS, RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.merge.merge import find_greatest
from workers.merge.versions import (
    DELETE_NOW,
    DELETED_FIELD,
    ROW,
    combine_chunks,
    kinds,
    to_take_indices,
    without_deletes,
)
from workers.read.log_versions import IS_DELETED, LogReader
from workers.schema.alter import widen_ordering
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.schema_history import is_service_commit
from workers.timeline.metadata import CommitMetadata, WriteStat
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.handles import write_row_groups
from workers.write.status import TaskIds

_SOURCE = "_sluice_source"
GroupKey = tuple[str, str]
_Ages = dict[str, set[tuple[bool, Any]]]
"""Key -> whether its versions erase all before them, and their ordering values."""
_KeysByLog = Mapping[str, Set[str]]
"""Keys by the log file that has their rows."""
_Rivals = Sequence[tuple[InstantTime, CommitMetadata]]
"""In the order in which they completed."""


@dataclass(frozen=True, slots=True)
class _WrittenRows:
    """What one commit wrote into one file group."""

    versions: pa.Table
    columns: Set[str]
    """That its rows bring values for, besides those that locate and order them."""


@dataclass(frozen=True, slots=True)
class _Overlap:
    """The overlap with one concurrent commit, in one file group."""

    again: set[str]
    """Keys whose row of ours other engines would miss."""
    lacking: set[str]
    """Keys whose row there lacks a column that ours has, and is seen behind ours."""


@dataclass(frozen=True, slots=True)
class RowsToRepublish:
    """Found before the lock as far as it goes, and written under it."""

    by_group: Mapping[GroupKey, _KeysByLog]
    write: Callable[[InstantTime, TableSchema], list[WriteStat]]

    @property
    def keys(self) -> int:
        """The count of keys that are written again, each once per file group."""
        return sum(len(keys) for logs in self.by_group.values() for keys in logs.values())


class OutOfOrderRows:
    """The log rows of one write, compared with commits that overtook it. Commits never change, so
    each is read once.
    """

    def __init__(self, context: WriteContext, storage: Storage, stats: Iterable[WriteStat]) -> None:
        self._context = context
        self._storage = storage
        self._ours = {(stat.partition_path, stat.file_id): stat for stat in stats if stat.is_log}
        self._own: dict[GroupKey, _WrittenRows | None] = {}
        self._met: dict[InstantTime, dict[GroupKey, _Overlap]] = {}

    @property
    def is_compared(self) -> bool:
        """Other engines do not merge the logs of tables with mergers of ours, and leave them."""
        config = self._context.config
        return bool(self._ours) and config.groups is None and config.merger is None

    def find_rows(self, rivals: _Rivals) -> RowsToRepublish | None:
        """Return what is to be written again behind these commits, or None. Raises MalformedTable,
        NotFound.
        """
        if not self.is_compared:
            return None
        again: dict[GroupKey, set[str]] = {}
        lacking: dict[GroupKey, set[str]] = {}
        for instant, metadata in rivals:
            if instant not in self._met:
                self._met[instant] = self._compare_commit(instant, metadata)
            for group, overlap in self._met[instant].items():
                again.setdefault(group, set()).update(overlap.again)
                lacking.setdefault(group, set()).update(overlap.lacking)
        by_group: dict[GroupKey, _KeysByLog] = {}
        for group, keys in again.items():
            theirs = self._find_their_winners(group, lacking[group], rivals)
            mine = {self._ours[group].path: keys.difference(*theirs.values())}
            if logs := {path: found for path, found in {**theirs, **mine}.items() if found}:
                by_group[group] = logs
        if not by_group:
            return None
        return RowsToRepublish(
            by_group, lambda instant, schema: self._write(instant, schema, by_group)
        )

    def _compare_commit(
        self, instant: InstantTime, metadata: CommitMetadata
    ) -> dict[GroupKey, _Overlap]:
        met_by_group: dict[GroupKey, _Overlap] = {}
        has_passed, columns = instant > self._context.instant, self._find_unknown_columns(metadata)
        if not has_passed and not columns:
            return {}
        for stat in metadata.stats:
            group = (stat.partition_path, stat.file_id)
            if group not in self._ours or not (stat.is_log or columns):
                continue
            theirs = self._read(stat) if stat.is_log else self._read_base(stat, metadata, columns)
            ours = self._read_own(group)
            if theirs is None or ours is None:
                continue
            again = (
                self._find_order_dependent(ours, theirs) if has_passed and stat.is_log else set()
            )
            if columns & theirs.columns:
                again |= _find_shared_keys(ours, theirs)
            is_seen_behind = has_passed and self._lacks(theirs, ours)
            met_by_group[group] = _Overlap(
                again, _find_shared_keys(theirs, ours) if is_seen_behind else set()
            )
        return met_by_group

    def _read_base(
        self, stat: WriteStat, metadata: CommitMetadata, columns: Set[str]
    ) -> _WrittenRows | None:
        """Read the rows of a base file; None for what a service rewrote: its rows are those of
        other commits, which are compared themselves.
        """
        if is_service_commit(metadata):
            return None
        rows = read_base_file(self._storage, stat.path, [RECORD_KEY, *sorted(columns)])
        return _WrittenRows(rows, columns & {*rows.column_names})

    def _lacks(self, theirs: _WrittenRows, ours: _WrittenRows) -> bool:
        """Check whether a row of theirs that is greater is seen with values of ours."""
        is_ordered = self._context.config.ordering_field is not None
        return is_ordered and self._is_whole and bool(ours.columns - theirs.columns)

    def _find_their_winners(
        self, group: GroupKey, keys: Set[str], rivals: _Rivals
    ) -> dict[str, set[str]]:
        """Return, by log file of a rival, those of `keys` whose row there wins and lacks a column
        that ours has. What completed before we began may be greater still; then this changes
        nothing.
        """
        if not keys:
            return {}
        sources = [
            (stat, self._met[instant])
            for instant, metadata in rivals
            for stat in metadata.stats
            if stat.is_log and (stat.partition_path, stat.file_id) == group
        ]
        written = [self._read(stat) for stat, _ in sources] + [self._read_own(group)]
        sorted_keys = pa.array(sorted(keys), pa.string())
        tables = []
        for number, source in enumerate(written):
            if source is not None:
                rows = source.versions.filter(
                    pc.is_in(source.versions.column(RECORD_KEY), sorted_keys)
                )
                tables.append(rows.append_column(_SOURCE, pa.repeat(number, rows.num_rows)))
        versions = pa.concat_tables(tables, promote_options="default")
        winners = to_take_indices(find_greatest(versions, self._context.config.ordering_field))
        winning_rows = without_deletes(versions.take(winners))
        keys_by_log: dict[str, set[str]] = {}
        winning_keys: list[Any] = winning_rows.column(RECORD_KEY).to_pylist()
        numbers: list[Any] = winning_rows.column(_SOURCE).to_pylist()
        for key, number in zip(winning_keys, numbers, strict=True):
            if number < len(sources):
                stat, overlaps = sources[number]
                if key in overlaps[group].lacking:
                    keys_by_log.setdefault(stat.path, set()).add(key)
        return keys_by_log

    @property
    def _is_whole(self) -> bool:
        """Its rows have every column that the write knew; what they lack is null."""
        return not self._context.config.is_partial_update and not self._context.is_narrow

    def _find_unknown_columns(self, metadata: CommitMetadata) -> frozenset[str]:
        """Columns that the table has by this commit, and that a whole row of ours lacks."""
        schema_text = metadata.schema_json
        # Of many rivals nearly all carry the schema that ours began with: it is not parsed again.
        if not schema_text or schema_text == self._context.schema.avro_json or not self._is_whole:
            return frozenset()
        their_names = TableSchema.from_avro_json(schema_text).field_names
        return frozenset(their_names).difference(self._context.schema.field_names)

    def _read_own(self, group: GroupKey) -> _WrittenRows | None:
        if group not in self._own:
            self._own[group] = self._read(self._ours[group])
        return self._own[group]

    def _read(self, stat: WriteStat) -> _WrittenRows | None:
        """Its keys and ages; of its columns only which there are, whatever their types."""
        group = (stat.partition_path, stat.file_id)
        slice_, reader = self._open_log(self._context, group, stat.path, keys_only=True)
        blocks = reader.blocks(slice_)
        versions = reader.versions_of(blocks, slice_)
        if versions is None:
            return None
        config = self._context.config
        shared = {*META_COLUMNS, *config.record_key, *config.partition_by}
        if config.ordering_field is not None:  # Else it is a column like any other.
            shared.add(config.ordering_field)
        data = [
            data_block for data_block in blocks if isinstance(data_block, ParquetData | AvroData)
        ]
        names = {name for block in data for name in self._list_columns(block)}
        return _WrittenRows(versions, frozenset(names - shared))

    def _open_log(
        self, context: WriteContext, group: GroupKey, path: str, *, keys_only: bool = False
    ) -> tuple[FileSlice, LogReader]:
        slice_ = FileSlice(*group, None, None, (path,))
        if not keys_only:
            return slice_, LogReader(self._storage, context.config, context.schema)
        deciding = {context.config.ordering_field, IS_DELETED} & {*context.schema.field_names}
        columns = {*META_COLUMNS, *map(str, deciding)}
        # Who overtook us may have widened what rows are ordered by.
        schema = widen_ordering(context.schema, context.config.ordering_columns)
        return slice_, LogReader(self._storage, context.config, schema, columns)

    def _list_columns(self, block: ParquetData | AvroData) -> list[str]:
        if not self._context.config.is_partial_update:
            return block.field_names
        rows = block.table()  # A null is not a value there.
        return [name for name in rows.column_names if rows.column(name).null_count < rows.num_rows]

    def _find_order_dependent(self, ours: _WrittenRows, theirs: _WrittenRows) -> set[str]:
        """Keys of both for which it matters who comes last."""
        shared = pc.is_in(
            ours.versions.column(RECORD_KEY),
            value_set=combine_chunks(theirs.versions.column(RECORD_KEY)),
        )
        mine = ours.versions.filter(shared)
        if not mine.num_rows:
            return set()
        keys = combine_chunks(mine.column(RECORD_KEY))
        their = theirs.versions.filter(pc.is_in(theirs.versions.column(RECORD_KEY), value_set=keys))
        is_partial = self._context.config.is_partial_update
        is_apart = is_partial and not ours.columns & theirs.columns
        our_ages, their_ages = self._collect_orders(mine), self._collect_orders(their)
        return {
            key
            for key, ages in our_ages.items()
            if _matters(ages, their_ages[key], is_partial=is_partial, is_apart=is_apart)
        }

    def _collect_orders(self, versions: pa.Table) -> _Ages:
        field = self._context.config.ordering_field
        keys: list[Any] = versions.column(RECORD_KEY).to_pylist()
        orders = versions.column(field).to_pylist() if field else [None] * len(keys)
        marks: list[int] = kinds(versions).tolist()
        ages: _Ages = {}
        for key, kind, order in zip(keys, marks, orders, strict=True):
            ages.setdefault(key, set()).add((kind != ROW, None if kind == DELETE_NOW else order))
        return ages

    def _write(
        self, instant: InstantTime, schema: TableSchema, by_group: Mapping[GroupKey, _KeysByLog]
    ) -> list[WriteStat]:
        context = replace(self._context, instant=instant)
        if self._is_whole:
            context = replace(context, schema=schema, columns=tuple(schema.field_names))
        groups = [self._build_group(context, group, by_group[group]) for group in sorted(by_group)]
        return [
            status.stat for status in write_row_groups(context, groups, TaskIds(), self._storage)
        ]

    def _build_group(self, context: WriteContext, group: GroupKey, keys: _KeysByLog) -> RowGroup:
        slot = parse_bucket_number(group[1])
        assert slot is not None, group
        rows = [self._read_rows(context, group, path, keys[path]) for path in sorted(keys)]
        rows_again = pa.concat_tables(rows)
        keeps_seqno = COMMIT_SEQNO in rows_again.column_names
        return RowGroup(group[0], slot, rows_again, first_row=0, keeps_seqno=keeps_seqno)

    def _read_rows(
        self, context: WriteContext, group: GroupKey, path: str, keys: Set[str]
    ) -> pa.Table:
        """Read the rows of a log under these keys. Without deletes if the log is another writer's,
        because the row that came after them counts.
        """
        slice_, reader = self._open_log(context, group, path)
        versions = reader.versions(slice_)
        assert versions is not None, path
        sorted_keys = pa.array(sorted(keys), pa.string())
        rows = versions.filter(pc.is_in(versions.column(RECORD_KEY), value_set=sorted_keys))
        if path != self._ours[group].path:
            rows = without_deletes(rows)
        names = [RECORD_KEY]
        if context.operation != "delete":
            # Readers of Sluice find the commit in it that wrote the row first.
            origin = [] if context.rule.is_folding else [COMMIT_SEQNO]
            names = [*context.columns, RECORD_KEY, *origin]
        elif context.config.ordering_field in context.columns:
            names = [RECORD_KEY, str(context.config.ordering_field)]
        if not context.marks_deletes:
            return rows.select(names)
        marks = pa.array(kinds(rows), pa.int8())
        return rows.select(names).append_column(DELETED_FIELD, marks)


def _find_shared_keys(ours: _WrittenRows, theirs: _WrittenRows) -> set[str]:
    their_keys = combine_chunks(theirs.versions.column(RECORD_KEY))
    rows = without_deletes(ours.versions)
    keys: Any = rows.column(RECORD_KEY)
    return set(keys.filter(pc.is_in(keys, value_set=their_keys)).to_pylist())


def _matters(
    ours: set[tuple[bool, Any]],
    theirs: set[tuple[bool, Any]],
    *,
    is_partial: bool,
    is_apart: bool,
) -> bool:
    is_delete = any(is_deleting for is_deleting, _ in (*ours, *theirs))
    if is_partial and is_delete:  # What a delete erased would fill up the row next to it.
        return True
    if is_apart:
        return False
    orders, others = {order for _, order in ours}, {order for _, order in theirs}
    return None in orders or None in others or bool(orders & others)
