"""A log file of one file group: rows as a Parquet block, deletes as a delete block."""

from __future__ import annotations

from dataclasses import dataclass

from workers.files.delete_record import DELETE_NOW, DeleteRecord
from workers.files.log_block import encode_delete_block, encode_parquet_block
from workers.files.log_file import write_log_file
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.files.partition import ensure_partition
from workers.markers.marker import IOType, Marker
from workers.storage.base import Storage, join
from workers.timeline.metadata import WriteStat
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.rows import conform_with_meta, max_ordering, new_rows
from workers.write.status import TaskIds, WriteStatus


@dataclass(frozen=True, slots=True)
class LogWrite:
    group: RowGroup
    file_id: str
    file_name: str
    is_new: bool

    @property
    def marker(self) -> Marker:
        return Marker(self.group.partition, self.file_name, IOType.CREATE)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        rows = new_rows(context, self.group, task, self.file_id)
        if context.is_narrow and any(rows.column(name).null_count for name in context.columns):
            # In a narrow block hudi-rs lets null erase; in a full row every reader keeps the value.
            rows = conform_with_meta(rows, context)
        avro = context.schema.select(rows.column_names[len(META_COLUMNS) :]).with_meta_avro()
        block = encode_parquet_block(rows, instant=context.instant, avro_schema=avro)
        ensure_partition(storage, self.group.partition, context.instant)
        path = join(self.group.partition, self.file_name)
        size = write_log_file(storage, path, [block])
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=self.group.partition,
            prev_commit=context.instant,
            num_writes=rows.num_rows,
            num_inserts=rows.num_rows if self.is_new else 0,
            num_updates=0 if self.is_new else rows.num_rows,
            bytes=size,
            is_log=True,
        )
        return WriteStatus(stat, rows.num_rows, max_ordering(context, rows))


@dataclass(frozen=True, slots=True)
class LogDelete:
    """Deletes by key: whatever stands under these keys is gone, and later rows start afresh."""

    group: RowGroup
    file_id: str
    file_name: str

    @property
    def marker(self) -> Marker:
        return Marker(self.group.partition, self.file_name, IOType.CREATE)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        partition = self.group.partition
        keys = self.group.rows.column(RECORD_KEY).unique().to_pylist()
        records = [DeleteRecord(str(key), partition, DELETE_NOW) for key in keys]
        path = join(partition, self.file_name)
        block = encode_delete_block(records, instant=context.instant)
        size = write_log_file(storage, path, [block])
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=partition,
            prev_commit=context.instant,
            # Whether the keys were there is not known without a read: counted is what was asked.
            num_deletes=len(keys),
            bytes=size,
            is_log=True,
        )
        return WriteStatus(stat, len(keys))
