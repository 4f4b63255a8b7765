"""Write the file groups of one task: marker first, then one file each, then the statuses.

Runs on executors and in plain processes alike. It sees only the context and its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_file import read_base_file, write_base_file
from workers.files.log_block import encode_parquet_block
from workers.files.log_file import write_log_file
from workers.files.meta_columns import (
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    with_file_name,
    with_meta_columns,
)
from workers.files.names import BaseFileName, LogFileName, bucket_file_id, write_token
from workers.files.partition import ensure_partition
from workers.markers.marker import IOType, Marker
from workers.markers.opening import open_markers
from workers.merge.merge import merge, merge_into
from workers.schema.reconcile import conform
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.timeline.metadata import WriteStat
from workers.write.context import WriteContext
from workers.write.prepare import BUCKET
from workers.write.status import OrderingText, TaskIds, WriteStatus

_NEW_FILE_GROUP = "null"


def write_file_groups(
    context: WriteContext, prepared: pa.Table, task: TaskIds, storage: Storage
) -> list[WriteStatus]:
    """One file per file group that `prepared` touches. The rows of one file group must all be here.

    Raises InstantRolledBack, MarkerRefused, StorageFailed: the whole write has failed then.
    """
    if prepared.num_rows == 0:
        return []
    writes, first_row = [], 0
    for group in _groups(prepared):
        writes.append(_planned(context, group, task, first_row))
        first_row += group.rows.num_rows
    markers = open_markers(context.markers, storage, context.instant)
    markers.create_all(write.marker for write in writes)
    return [write.run(context, storage, task) for write in writes]


@dataclass(frozen=True, slots=True)
class _Group:
    partition: str
    bucket: int
    rows: pa.Table


def _groups(prepared: pa.Table) -> Iterator[_Group]:
    """Rows by (partition, bucket), each group in the order of arrival."""
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    buckets = prepared.column(BUCKET).to_numpy().astype(np.int64)
    codes = paths.indices.to_numpy().astype(np.int64) * (buckets.max() + 1) + buckets
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1, [len(order)]))
    for start, end in pairwise(starts):
        rows = prepared.take(order[start:end])
        partition = rows.column(PARTITION_PATH)[0].as_py()
        yield _Group(partition, int(rows.column(BUCKET)[0].as_py()), rows)


def _planned(
    context: WriteContext, group: _Group, task: TaskIds, first_row: int
) -> _LogWrite | _BaseWrite:
    standing = context.slices.get((group.partition, group.bucket))
    file_id = standing.file_id if standing else bucket_file_id(group.bucket)
    token = write_token(task.partition, task.stage, task.attempt)
    if context.appends_only or (standing and context.config.is_merge_on_read):
        log_name = LogFileName(file_id, context.instant, 1, token)
        return _LogWrite(group, first_row, file_id, log_name.text, is_new=standing is None)
    base_name = BaseFileName(file_id, token, context.instant)
    return _BaseWrite(group, first_row, file_id, base_name.text, standing)


@dataclass(frozen=True, slots=True)
class _LogWrite:
    group: _Group
    first_row: int
    """Keeps sequence numbers of one task's file groups apart."""
    file_id: str
    file_name: str
    is_new: bool

    @property
    def marker(self) -> Marker:
        return Marker(self.group.partition, self.file_name, IOType.CREATE)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        rows = _with_meta(context, self, task, self.file_id)
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
        return WriteStatus(stat, rows.num_rows, _max_ordering(context, rows))


@dataclass(frozen=True, slots=True)
class _BaseWrite:
    group: _Group
    first_row: int
    """Keeps sequence numbers of one task's file groups apart."""
    file_id: str
    file_name: str
    standing: FileSlice | None

    @property
    def marker(self) -> Marker:
        io_type = IOType.MERGE if self.standing else IOType.CREATE
        return Marker(self.group.partition, self.file_name, io_type)

    def run(self, context: WriteContext, storage: Storage, task: TaskIds) -> WriteStatus:
        schema = context.schema
        newer = _with_meta(context, self, task, self.file_name)
        newer = conform_with_meta(newer, context)
        updates, merged = 0, newer
        if self.standing is not None:
            base = base_rows(storage, self.standing, context)
            keys = pc.is_in(
                newer.column(RECORD_KEY), value_set=base.column(RECORD_KEY).combine_chunks()
            )
            updates = int(np.count_nonzero(keys.to_numpy()))
            merged = with_file_name(merge_into(base, newer, context.rule), self.file_name)
        ensure_partition(storage, self.group.partition, context.instant)
        path = join(self.group.partition, self.file_name)
        size = write_base_file(storage, path, merged, avro_schema=schema.with_meta_avro())
        previous = self.standing.base_file if self.standing else None
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition_path=self.group.partition,
            prev_commit=(self.standing and self.standing.base_instant) or _NEW_FILE_GROUP,
            num_writes=merged.num_rows,
            num_inserts=newer.num_rows - updates,
            num_updates=updates,
            bytes=size,
            prev_base_file=previous.rpartition("/")[2] if previous else None,
        )
        return WriteStatus(stat, newer.num_rows, _max_ordering(context, newer))


def base_rows(storage: Storage, standing: FileSlice, context: WriteContext) -> pa.Table:
    """The rows of the standing base file under the writer schema, meta columns first."""
    assert standing.base_file is not None, standing
    assert not standing.log_files, standing
    return conform_with_meta(read_base_file(storage, standing.base_file), context)


def conform_with_meta(rows: pa.Table, context: WriteContext) -> pa.Table:
    data = conform(rows.drop_columns(list(META_COLUMNS)), context.schema)
    fields = [pa.field(name, pa.string()) for name in META_COLUMNS]
    columns = [*(rows.column(name).cast(pa.string()) for name in META_COLUMNS), *data.columns]
    return pa.table(columns, schema=pa.schema([*fields, *data.schema]))


def _with_meta(
    context: WriteContext, write: _LogWrite | _BaseWrite, task: TaskIds, file_name: str
) -> pa.Table:
    """The group's rows, one per key, as new rows of this instant."""
    rows = merge(write.group.rows, context.rule)
    return with_meta_columns(
        rows.select(list(context.columns)),
        instant=context.instant,
        keys=rows.column(RECORD_KEY),
        partition=write.group.partition,
        file_name=file_name,
        task_partition=task.partition,
        first_row=write.first_row,
    )


def _max_ordering(context: WriteContext, rows: pa.Table) -> OrderingText | None:
    field = context.config.ordering_field
    if field is None:
        return None
    greatest = pc.max(rows.column(field)).as_py()
    if greatest is None or isinstance(greatest, str | int | float):
        return greatest
    if hasattr(greatest, "isoformat"):
        is_moment = hasattr(greatest, "hour")
        return str(
            greatest.isoformat(timespec="microseconds") if is_moment else greatest.isoformat()
        )
    return str(greatest)
