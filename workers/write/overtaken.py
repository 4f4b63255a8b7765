"""The rows of a write that other engines would see behind those that overtook it.

Logs of one file group are merged here in the order in which their writers completed, by Apache Hudi
and hudi-rs in the order in which they were requested. Where a writer was overtaken, and a key that
both wrote comes out differently, the overtaken one's row or delete is written once more, by an
instant that was requested after both. To merge a row twice is to merge it once, so that for Sluice
nothing changes.

It comes out the same, and nothing is written, where two rows compete by ordering values of their
own, or bring no column in common. Of two rows with one ordering value, of rows that go by commit
time and of deletes by key the later one counts.

A whole row also says null in the columns that it does not know, because others added them since its
write began. hudi-rs keeps the value that the row before has there, so such rows are written again
with these columns, whoever was requested first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.files.log_block import AvroData, ParquetData
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.files.names import bucket_of
from workers.merge.versions import DELETE_NOW, DELETED, ROW, single, without_deletes
from workers.read.log_versions import IS_DELETED, LogReader
from workers.schema.alter import with_widest
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.timeline.metadata import CommitMetadata, WriteStat
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.handles import write_row_groups
from workers.write.status import TaskIds

GroupKey = tuple[str, str]
_Ages = dict[str, set[tuple[bool, Any]]]
"""Of each key, whether its versions erase all before them, and their ordering values."""


@dataclass(frozen=True, slots=True)
class _Written:
    """What one commit wrote into one file group."""

    versions: pa.Table
    columns: frozenset[str]
    """That its rows bring values for, besides those that locate and order them."""


@dataclass(frozen=True, slots=True)
class RowsAgain:
    """Found before the lock as far as it goes, and written under it."""

    by_group: Mapping[GroupKey, Set[str]]
    write: Callable[[InstantTime, TableSchema], list[WriteStat]]

    @property
    def keys(self) -> int:
        return sum(map(len, self.by_group.values()))


class OvertakenRows:
    """Of one write. Commits never change, so each that overtook it is read once."""

    def __init__(self, context: WriteContext, storage: Storage, stats: Iterable[WriteStat]) -> None:
        self._context = context
        self._storage = storage
        self._ours = {(one.partition_path, one.file_id): one for one in stats if one.is_log}
        self._own: dict[GroupKey, _Written | None] = {}
        self._met: dict[InstantTime, dict[GroupKey, set[str]]] = {}

    @property
    def is_compared(self) -> bool:
        """Other engines do not merge the logs of tables with mergers of ours, and leave them."""
        config = self._context.config
        return bool(self._ours) and config.groups is None and config.merger is None

    def among(self, rivals: Sequence[tuple[InstantTime, CommitMetadata]]) -> RowsAgain | None:
        """What is to be written again behind these commits. Raises MalformedTable, NotFound."""
        if not self.is_compared:
            return None
        keys: dict[GroupKey, set[str]] = {}
        for instant, metadata in rivals:
            if instant not in self._met:
                self._met[instant] = self._meets(instant, metadata)
            for group, met in self._met[instant].items():
                keys.setdefault(group, set()).update(met)
        if not keys:
            return None
        return RowsAgain(keys, lambda instant, schema: self._write(instant, schema, keys))

    def _meets(self, instant: InstantTime, metadata: CommitMetadata) -> dict[GroupKey, set[str]]:
        found: dict[GroupKey, set[str]] = {}
        has_passed, columns = instant > self._context.instant, self._unknown(metadata)
        if not has_passed and not columns:
            return {}
        for stat in metadata.stats:
            group = (stat.partition_path, stat.file_id)
            if not stat.is_log or group not in self._ours:
                continue
            theirs, ours = self._read(stat), self._mine(group)
            if theirs is not None and ours is not None:
                keys = self._differing(ours, theirs) if has_passed else set()
                if columns & theirs.columns:
                    keys |= _rows_of_both(ours, theirs)
                found.setdefault(group, set()).update(keys)
        return {group: keys for group, keys in found.items() if keys}

    @property
    def _is_whole(self) -> bool:
        """Its rows have every column that the write knew; what they lack is null."""
        return not self._context.config.is_partial_update and not self._context.is_narrow

    def _unknown(self, metadata: CommitMetadata) -> frozenset[str]:
        """Columns that the table has by this commit, and that a whole row of ours lacks."""
        told = metadata.schema_json
        # Of many rivals nearly all carry the schema that ours began with: it is not parsed again.
        if not told or told == self._context.schema.avro_json or not self._is_whole:
            return frozenset()
        known = TableSchema.from_avro_json(told).field_names
        return frozenset(known).difference(self._context.schema.field_names)

    def _mine(self, group: GroupKey) -> _Written | None:
        if group not in self._own:
            self._own[group] = self._read(self._ours[group])
        return self._own[group]

    def _read(self, stat: WriteStat) -> _Written | None:
        """Its keys and ages; of its columns only which there are, whatever their types."""
        slice_, reader = self._opened(self._context, stat, keys_only=True)
        blocks = reader.blocks(slice_)
        versions = reader.versions_of(blocks, slice_)
        if versions is None:
            return None
        config = self._context.config
        shared = {*META_COLUMNS, *config.record_key, *config.partition_by, *config.ordering}
        data = [one for one in blocks if isinstance(one, ParquetData | AvroData)]
        names = {name for block in data for name in self._brought(block)}
        return _Written(versions, frozenset(names - shared))

    def _opened(
        self, context: WriteContext, stat: WriteStat, *, keys_only: bool = False
    ) -> tuple[FileSlice, LogReader]:
        slice_ = FileSlice(stat.partition_path, stat.file_id, None, None, (stat.path,))
        if not keys_only:
            return slice_, LogReader(self._storage, context.config, context.schema)
        deciding = {context.config.ordering_field, IS_DELETED} & {*context.schema.field_names}
        columns = {*META_COLUMNS, *map(str, deciding)}
        # Who overtook us may have widened what rows are ordered by.
        schema = with_widest(context.schema, context.config.ordering_columns)
        return slice_, LogReader(self._storage, context.config, schema, columns)

    def _brought(self, block: ParquetData | AvroData) -> list[str]:
        if not self._context.config.is_partial_update:
            return block.field_names
        rows = block.table()  # A null says nothing there.
        return [name for name in rows.column_names if rows.column(name).null_count < rows.num_rows]

    def _differing(self, ours: _Written, theirs: _Written) -> set[str]:
        """Keys of both for which it matters who comes last."""
        shared = pc.is_in(
            ours.versions.column(RECORD_KEY), value_set=single(theirs.versions.column(RECORD_KEY))
        )
        mine = ours.versions.filter(shared)
        if not mine.num_rows:
            return set()
        keys = single(mine.column(RECORD_KEY))
        their = theirs.versions.filter(pc.is_in(theirs.versions.column(RECORD_KEY), value_set=keys))
        is_apart = self._context.config.is_partial_update and not ours.columns & theirs.columns
        our_ages, their_ages = self._ages(mine), self._ages(their)
        return {
            key
            for key, ages in our_ages.items()
            if _matters(ages, their_ages[key], is_apart=is_apart)
        }

    def _ages(self, versions: pa.Table) -> _Ages:
        field = self._context.config.ordering_field
        keys: list[Any] = versions.column(RECORD_KEY).to_pylist()
        orders = versions.column(field).to_pylist() if field else [None] * len(keys)
        kinds: list[Any] = [ROW] * len(keys)
        if DELETED in versions.column_names:
            kinds = versions.column(DELETED).to_pylist()
        found: _Ages = {}
        for key, kind, order in zip(keys, kinds, orders, strict=True):
            found.setdefault(key, set()).add(
                ((kind or ROW) != ROW, None if kind == DELETE_NOW else order)
            )
        return found

    def _write(
        self, instant: InstantTime, schema: TableSchema, keys: dict[GroupKey, set[str]]
    ) -> list[WriteStat]:
        context = replace(self._context, instant=instant)
        if self._is_whole:
            context = replace(context, schema=schema, columns=tuple(schema.field_names))
        groups = [self._again(context, group, keys[group]) for group in sorted(keys)]
        return [one.stat for one in write_row_groups(context, groups, TaskIds(), self._storage)]

    def _again(self, context: WriteContext, group: GroupKey, keys: set[str]) -> RowGroup:
        slot = bucket_of(group[1])
        assert slot is not None, group
        slice_, reader = self._opened(context, self._ours[group])
        versions = reader.versions(slice_)
        assert versions is not None, group
        wanted = pa.array(sorted(keys), pa.string())
        rows = versions.filter(pc.is_in(versions.column(RECORD_KEY), value_set=wanted))
        names = [RECORD_KEY]
        if context.operation != "delete":
            names = [*context.columns, RECORD_KEY]
        elif context.config.ordering_field in context.columns:
            names = [RECORD_KEY, str(context.config.ordering_field)]
        if context.marks_deletes and DELETED in rows.column_names:
            names.append(DELETED)
        return RowGroup(group[0], slot, rows.select(names), first_row=0)


def _rows_of_both(ours: _Written, theirs: _Written) -> set[str]:
    their_keys = single(theirs.versions.column(RECORD_KEY))
    rows = without_deletes(ours.versions)
    keys: Any = rows.column(RECORD_KEY)
    return set(keys.filter(pc.is_in(keys, value_set=their_keys)).to_pylist())


def _matters(ours: set[tuple[bool, Any]], theirs: set[tuple[bool, Any]], *, is_apart: bool) -> bool:
    is_delete = any(one for one, _ in (*ours, *theirs))
    if is_apart and not is_delete:
        return False
    orders, others = {order for _, order in ours}, {order for _, order in theirs}
    return None in orders or None in others or bool(orders & others)
