"""A log file of one file group: rows as a data block, deletes as a delete block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.files.delete_record import DeleteRecord
from workers.files.log_block import encode_delete_block
from workers.files.log_file import write_log_file
from workers.files.meta_columns import RECORD_KEY
from workers.markers.marker import IOType, Marker
from workers.merge.versions import DELETE, DELETED, DELETED_FIELD, ROW
from workers.read.log_versions import IS_DELETED
from workers.storage.base import Storage, join
from workers.timeline.metadata import WriteStat
from workers.write.context import WriteContext
from workers.write.deletes import build_move_records, delete_records
from workers.write.exhausted_lists import can_exhaust_list
from workers.write.groups import RowGroup
from workers.write.log_rows import encode_row_blocks
from workers.write.rows import (
    build_arriving_states,
    build_new_rows,
    count_group_keys,
    count_keys,
    count_leaving_keys,
    count_moved_rows,
    find_empty_columns,
    find_max_ordering,
    has_low_ordering,
    measure_groups,
)
from workers.write.status import TaskIds, WriteStatus


@dataclass(frozen=True, slots=True)
class LogWrite:
    """Rows and marked deletes for one file group, as a log file of this write's own."""

    group: RowGroup
    file_id: str
    file_name: str
    is_new: bool

    @property
    def marker(self) -> Marker:
        """The marker to create before `run`."""
        return Marker(self.group.partition, self.file_name, IOType.CREATE)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        """Write the log file and return its status. Nothing of the file group is read. So every row
        of an existing one counts as an update, except keys that a lookup found deleted there.
        Raises StorageFailed.
        """
        versions = build_new_rows(context, self.group, task, self.file_id)
        rows, deletes = _split(versions, context)
        partition = self.group.partition
        blocks = []
        if self.group.leaving is not None:
            records = build_move_records(self.group.leaving, partition)
            blocks.append(encode_delete_block(records, instant=context.instant))
        if deletes.num_rows:  # First, because a row next to a delete came after it.
            records = delete_records(deletes, partition, context.config.ordering_field)
            blocks.append(encode_delete_block(records, instant=context.instant))
        arrived = build_arriving_states(context, self.group, task, self.file_id)
        if arrived is not None:  # Before the batch's values for them.
            blocks += encode_row_blocks(arrived, context)
        if rows.num_rows:
            blocks += encode_row_blocks(rows, context)
        path = join(partition, self.file_name)
        size = write_log_file(storage, path, blocks)
        written = inserts = count_keys(context, rows)
        if not self.is_new:
            inserts = min(written, context.revived.get((partition, self.group.slot), 0))
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=self.group.partition,
            prev_commit=context.instant,
            num_writes=rows.num_rows + (arrived.num_rows if arrived is not None else 0),
            num_inserts=inserts,
            num_updates=written - inserts,
            num_deletes=deletes.num_rows + count_leaving_keys(self.group),
            bytes=size,
            is_log=True,
            groups=measure_groups(context, versions),
        )
        return WriteStatus(
            stat,
            count_group_keys(context, self.group, versions),
            find_max_ordering(context, versions),
            find_empty_columns(context, versions),
            count_moved_rows(self.group),
            has_low_ordering=has_low_ordering(context, versions),
            may_exhaust_lists=can_exhaust_list(context, versions, None, None),
        )


def _split(versions: pa.Table, context: WriteContext) -> tuple[pa.Table, pa.Table]:
    """Rows for a data block and those for a delete block.

    Where the table has a column for the mark, a deleted row is a row like any other.
    """
    if DELETED not in versions.column_names:
        return versions, versions.slice(0, 0)
    if IS_DELETED in context.columns:
        return versions.drop_columns([DELETED]), versions.slice(0, 0)
    is_row: Any = pc.equal(versions.column(DELETED), pa.scalar(ROW, pa.int8()))
    return versions.filter(is_row).drop_columns([DELETED]), versions.filter(pc.invert(is_row))


@dataclass(frozen=True, slots=True)
class LogDelete:
    """Deletes by key: every row under these keys is deleted, and later rows start afresh.

    Where the keys come with ordering values, rows with greater ones stay.
    """

    group: RowGroup
    file_id: str
    file_name: str

    @property
    def marker(self) -> Marker:
        """The marker to create before `run`."""
        return Marker(self.group.partition, self.file_name, IOType.CREATE)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        """Write the log file; keys that the file group does not have count as deleted, too. Raises
        StorageFailed.
        """
        partition = self.group.partition
        records = self._records(context)
        path = join(partition, self.file_name)
        block = encode_delete_block(records, instant=context.instant)
        size = write_log_file(storage, path, [block])
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=partition,
            prev_commit=context.instant,
            # Whether the keys were there is not known without a read: counted is what was asked.
            num_deletes=len(records),
            bytes=size,
            is_log=True,
        )
        return WriteStatus(stat, len(records) - count_leaving_keys(self.group))

    def _records(self, context: WriteContext) -> list[DeleteRecord]:
        partition = self.group.partition
        if self.group.leaving is not None:
            return build_move_records(self.group.leaving, partition)
        return delete_records(self._deletes(context), partition, context.config.ordering_field)

    def _deletes(self, context: WriteContext) -> pa.Table:
        rows, ordering = self.group.rows, context.config.ordering_field
        if ordering is None or ordering not in rows.column_names:
            return pa.table({RECORD_KEY: rows.column(RECORD_KEY).unique()})
        kinds = pa.repeat(pa.scalar(DELETE, pa.int8()), rows.num_rows)
        return rows.select([RECORD_KEY, ordering]).append_column(DELETED_FIELD, kinds)
