"""A base file of one file group: new, or the current one with rows merged in or left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_file import BaseFileSize, read_base_file, write_base_parts
from workers.files.meta_columns import RECORD_KEY, with_file_name
from workers.index.bloom_filter import BloomFilterBuilder
from workers.markers.marker import IOType, Marker
from workers.merge.group_file import StatesOfFile
from workers.merge.group_state import is_alive
from workers.merge.key_deletes import find_tombstones
from workers.merge.merge import merge, merge_into
from workers.merge.merge_facts import MergeFacts
from workers.merge.versions import DELETED, Keys, without_deletes
from workers.options.write_keys import SortMode
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.timeline.group_facts import FactsByGroup, add_facts
from workers.timeline.metadata import WriteStat
from workers.write.context import WriteContext
from workers.write.exhausted_lists import can_exhaust_list
from workers.write.groups import RowGroup
from workers.write.rows import (
    build_arriving_states,
    build_new_rows,
    conform_states,
    conform_with_meta,
    count_group_keys,
    count_keys,
    count_moved_rows,
    find_empty_columns,
    find_max_ordering,
    has_low_ordering,
    measure_groups,
    read_base_rows,
    read_current_states,
)
from workers.write.status import TaskIds, WriteStatus

_NEW_FILE_GROUP = "null"


@dataclass(frozen=True, slots=True)
class BaseWrite:
    """Rows for one file group, merged into its current base file where it has one, as a new base
    file.
    """

    group: RowGroup
    file_id: str
    file_name: str
    current_slice: FileSlice | None

    @property
    def marker(self) -> Marker:
        """The marker to create before `run`."""
        io_type = IOType.MERGE if self.current_slice else IOType.CREATE
        return Marker(self.group.partition, self.file_name, io_type)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        """Write the file at `path` and return its status. Raises StorageFailed; NotFound if the
        current base file is gone.
        """
        if context.rule.groups is not None:
            return self._run_groups(context, storage, task)
        newer = build_new_rows(context, self.group, task, self.file_name)
        newer = conform_with_meta(newer, context)
        rows = without_deletes(newer)
        if self.current_slice is None:
            merged = rows if _has_distinct_keys(newer, context) else _merge_new_rows(newer, context)
            inserts, updates, deletes = merged.num_rows, 0, 0
        else:
            base = read_base_rows(storage, self.current_slice, context)
            updates = count_keys(context, rows.filter(pa.array(_has_any_key(rows, base))))
            inserts = count_keys(context, rows) - updates
            merged = merge_into(base, newer, context.rule)
            deletes = base.num_rows + inserts - merged.num_rows
        in_file = with_file_name(_sort_rows(merged, context), self.file_name)
        size = _write(context, storage, self.path, in_file).bytes
        stat = WriteStat(
            file_id=self.file_id,
            path=self.path,
            partition_path=self.group.partition,
            prev_commit=_base_instant(self.current_slice),
            num_writes=merged.num_rows,
            num_inserts=inserts,
            num_updates=updates,
            num_deletes=deletes,
            bytes=size,
            prev_base_file=_base_name(self.current_slice),
        )
        return WriteStatus(
            stat,
            count_group_keys(context, self.group, newer),
            find_max_ordering(context, newer),
            find_empty_columns(context, newer),
            has_low_ordering=has_low_ordering(context, newer),
        )

    def _run_groups(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        """Merged group by group; deleted keys are remembered in the new file."""
        fresh = build_new_rows(context, self.group, task, self.file_name)
        states = newer = conform_states(fresh, context)
        if (
            arrived := build_arriving_states(context, self.group, task, self.file_name)
        ) is not None:
            newer = pa.concat_tables([arrived, newer], promote_options="default")
        merged, merged_count, facts = merge(newer, context.rule), 0, MergeFacts()
        base: pa.Table | None = None
        if self.current_slice is not None:
            base = read_current_states(storage, self.current_slice, context)
            there = base.filter(pa.array(is_alive(base)))
            merged_count = there.num_rows
            if self.group.leaving is not None:
                base = base.filter(pa.array(~_has_any_key(base, self.group.leaving)))
            into = merge_into(base, newer, context.rule, facts)
            merged = with_file_name(into, self.file_name)
            updates = int(np.count_nonzero(_has_any_key(states, there)))
        else:
            updates = 0
        inserts = states.num_rows - updates
        file, state_facts = _write_states(context, storage, self.path, merged)
        stat = WriteStat(
            file_id=self.file_id,
            path=self.path,
            partition_path=self.group.partition,
            prev_commit=_base_instant(self.current_slice),
            num_writes=file.rows,
            num_inserts=inserts,
            num_updates=updates,
            num_deletes=merged_count + inserts - file.rows,
            bytes=file.bytes,
            prev_base_file=_base_name(self.current_slice),
            groups=add_facts([measure_groups(context, fresh), facts.by_group(), state_facts]),
        )
        return WriteStatus(
            stat,
            states.num_rows,
            find_max_ordering(context, fresh),
            find_empty_columns(context, fresh),
            count_moved_rows(self.group),
            may_exhaust_lists=can_exhaust_list(context, newer, base, merged),
        )

    @property
    def path(self) -> str:
        """The path of the new file, relative to the table."""
        return join(self.group.partition, self.file_name)


@dataclass(frozen=True, slots=True)
class BaseDelete:
    """The standing base file without some keys."""

    group: RowGroup
    file_id: str
    file_name: str
    current_slice: FileSlice

    @property
    def marker(self) -> Marker:
        """The marker to create before `run`."""
        return Marker(self.group.partition, self.file_name, IOType.MERGE)

    def has_matches(self, storage: Storage) -> bool:
        """Check whether the file holds one of the keys: otherwise it need not be written."""
        assert self.current_slice.base_file is not None, self.current_slice
        keys = read_base_file(storage, self.current_slice.base_file, [RECORD_KEY])
        return bool(_has_any_key(keys, self.group.rows).any())

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        """Write the base file without the group's keys and return its status, with the count of
        deleted rows. Raises StorageFailed; NotFound if the current base file is gone.
        """
        grouped = context.rule.groups
        base = (read_current_states if grouped else read_base_rows)(
            storage, self.current_slice, context
        )
        goes = _has_any_key(base, self.group.rows)
        rows_left = base.filter(pa.array(~goes))
        if grouped is not None and self.group.leaving is None:
            left = find_tombstones(base.filter(pa.array(goes)), grouped.groups(base.column_names))
            rows_left = pa.concat_tables([rows_left, left])
        rows_left = with_file_name(rows_left, self.file_name)
        path = join(self.group.partition, self.file_name)
        before = int(np.count_nonzero(is_alive(base))) if grouped else base.num_rows
        group_facts: FactsByGroup = {}
        if grouped:
            file, group_facts = _write_states(context, storage, path, rows_left)
        else:
            file = _write(context, storage, path, rows_left)
        deleted = before - file.rows
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=self.group.partition,
            prev_commit=_base_instant(self.current_slice),
            num_writes=file.rows,
            num_deletes=deleted,
            bytes=file.bytes,
            prev_base_file=_base_name(self.current_slice),
            groups=group_facts,
        )
        return WriteStatus(stat, 0 if self.group.leaving is not None else deleted)


def _has_any_key(rows: pa.Table, by: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which of `rows` have a key that `by` has too. The smaller side is hashed."""
    if rows.num_rows < by.num_rows:
        keys = Keys.of(rows)
        is_in_both = np.zeros(len(keys.distinct), np.bool_)
        numbers = pc.index_in(by.column(RECORD_KEY), value_set=keys.distinct)
        is_in_both[numbers.drop_null().to_numpy()] = True
        return is_in_both[keys.codes]
    by_keys = by.column(RECORD_KEY).combine_chunks()
    return np.asarray(pc.is_in(rows.column(RECORD_KEY), value_set=by_keys).to_numpy())


def _has_distinct_keys(newer: pa.Table, context: WriteContext) -> bool:
    """Check whether merged rows have distinct keys, so that none is left to merge."""
    return not context.rule.is_folding and DELETED not in newer.column_names


def _merge_new_rows(newer: pa.Table, context: WriteContext) -> pa.Table:
    return without_deletes(merge(newer, context.rule))


def _write(context: WriteContext, storage: Storage, path: str, rows: pa.Table) -> BaseFileSize:
    return write_base_parts(
        storage,
        path,
        [rows],
        avro_schema=context.schema.with_meta_avro(),
        key_filter=BloomFilterBuilder.of(context.config.bloom),
        **context.compression,
    )


def _write_states(
    context: WriteContext, storage: Storage, path: str, states: pa.Table
) -> tuple[BaseFileSize, FactsByGroup]:
    """The size of the file, and the tombstones that it keeps."""
    assert context.rule.groups is not None, context.config.name
    content = StatesOfFile(context.rule.groups, context.instant)
    size = write_base_parts(
        storage,
        path,
        [content.rows(_sort_rows(states, context))],
        avro_schema=context.schema.with_meta_avro(),
        more_footer=content.footer,
        **context.compression,
    )
    return size, content.by_group()


def _sort_rows(rows: pa.Table, context: WriteContext) -> pa.Table:
    """Sort the rows of a bulk insert. A file holds one bucket of one partition, so every sort mode
    but NONE comes to this.
    """
    options = context.options
    if context.operation != "bulk_insert" or options.sort_mode is SortMode.NONE:
        return rows
    names = options.sort_columns or (RECORD_KEY,)
    return rows.sort_by([(name, "ascending") for name in names])


def _base_instant(current_slice: FileSlice | None) -> str:
    return (current_slice and current_slice.base_instant) or _NEW_FILE_GROUP


def _base_name(current_slice: FileSlice | None) -> str | None:
    previous = current_slice.base_file if current_slice else None
    return previous.rpartition("/")[2] if previous else None
