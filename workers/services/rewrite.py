"""Rewriting one file slice into one new base file: what compaction and clustering share.

Runs on executors and in plain processes alike. It sees its context and its slice, never the
timeline. The attempt is asked about before the marker and after the file, so an executor that slept
through its own replacement takes its file back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.config import TableConfig
from workers.errors import InstantRolledBack, ServiceBusy
from workers.files.base_file import write_base_file
from workers.files.meta_columns import COMMIT_TIME, with_file_name
from workers.files.names import BaseFileName, instant_of
from workers.files.partition import ensure_partition
from workers.markers.direct import DirectMarkers
from workers.markers.marker import IOType, Marker
from workers.read.file_slice import read_slice
from workers.schema.table_schema import TableSchema
from workers.services.attempt import attempt_token
from workers.services.execution import confirm_attempt
from workers.services.row_order import RowOrder, in_order
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.timeline.metadata import WriteStat
from workers.timeline.service_plans import PlannedSlice

_NEW_FILE_GROUP = "null"


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Everything that an executor needs; small and picklable."""

    location: str
    instant: InstantTime
    attempt: str
    config: TableConfig
    schema: TableSchema
    """The table's when the plan was taken up: every slice is conformed to it."""
    order: RowOrder | None = None
    """None keeps the order in which the slice stands."""


@dataclass(frozen=True, slots=True)
class GroupRewrite:
    number: int
    """Of this slice within its plan."""
    slice: PlannedSlice
    file_id: str
    """Of the file group that the new base file belongs to."""

    @property
    def is_new_group(self) -> bool:
        return self.file_id != self.slice.file_id


def rewrite_group(context: RewriteContext, work: GroupRewrite, storage: Storage) -> WriteStat:
    """Merge the slice and write it as one new base file behind a marker.

    Raises ServiceBusy and InstantRolledBack with nothing left behind, NotFound when a file of the
    slice is gone, MalformedTable, StorageFailed.
    """
    token = attempt_token(context.attempt, partition=work.number)
    name = BaseFileName(work.file_id, token, context.instant).text
    old = work.slice
    path = join(old.partition, name)
    rows = _merged(context, old, storage)
    confirm_attempt(storage, context.instant, context.attempt)
    is_merge = old.base_file is not None and not work.is_new_group
    io_type = IOType.MERGE if is_merge else IOType.CREATE
    DirectMarkers(storage, context.instant).create(Marker(old.partition, name, io_type))
    ensure_partition(storage, old.partition, context.instant)
    avro = context.schema.with_meta_avro()
    size = write_base_file(storage, path, with_file_name(rows, name), avro_schema=avro)
    _take_back_if_replaced(context, path, storage)
    is_first = work.is_new_group or old.base_file is None
    return WriteStat(
        file_id=work.file_id,
        path=path,
        partition_path=old.partition,
        prev_commit=_NEW_FILE_GROUP if is_first else old.base_instant,
        num_writes=rows.num_rows,
        num_inserts=rows.num_rows if work.is_new_group else 0,
        num_updates=0 if work.is_new_group else _rows_of_logs(rows, old),
        bytes=size,
        prev_base_file=None if is_first else (old.base_file or "").rpartition("/")[2],
    )


def _merged(context: RewriteContext, old: PlannedSlice, storage: Storage) -> pa.Table:
    standing = FileSlice(old.partition, old.file_id, old.base_instant, old.base_file, old.log_files)
    rows = read_slice(storage, context.config, context.schema, standing)
    return in_order(rows, context.order) if context.order else rows


def _take_back_if_replaced(context: RewriteContext, path: str, storage: Storage) -> None:
    """Whoever took over after our marker may have listed before our file was there."""
    try:
        confirm_attempt(storage, context.instant, context.attempt)
    except (ServiceBusy, InstantRolledBack):
        storage.delete(path)
        raise


def _rows_of_logs(rows: pa.Table, old: PlannedSlice) -> int:
    """How many rows of the new file came from the logs."""
    instants = {instant_of(path.rpartition("/")[2]) for path in old.log_files}
    if not instants or rows.num_rows == 0:
        return 0
    written = pc.is_in(rows.column(COMMIT_TIME), value_set=pa.array(sorted(filter(None, instants))))
    return int(np.count_nonzero(written.to_numpy()))
