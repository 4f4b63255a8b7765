"""Rewrite one file slice into one new base file, for compaction and clustering.

Runs on executors and in plain processes alike. It reads its context and its slice, never the
timeline. The attempt is checked before the marker and after the file, so an executor that stalled
while it was replaced deletes its file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.concurrency.late_writers import record_writer
from workers.errors import InstantRolledBack, ServiceBusy
from workers.files.base_file import write_base_parts
from workers.files.meta_columns import COMMIT_TIME, with_file_name
from workers.files.names import BaseFileName, parse_name_instant
from workers.files.partition import ensure_partition
from workers.index.bloom_filter import BloomFilterBuilder
from workers.markers.direct import DirectMarkers
from workers.markers.marker import IOType, Marker
from workers.merge.merge_facts import MergeFacts
from workers.processes import SystemProcesses
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.table_services.attempt import build_attempt_token
from workers.table_services.execution import confirm_attempt
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.slice_parts import (
    build_file_states,
    read_merged_parts,
    read_state_parts,
)
from workers.timeline.group_facts import add_facts
from workers.timeline.metadata import WriteStat
from workers.timeline.service_plans import PlannedSlice

_NEW_FILE_GROUP = "null"


def rewrite_group(
    context: RewriteContext, work: GroupRewrite, storage: Storage, *, task_attempt: int = 0
) -> WriteStat:
    """Merge the slice and write it as one new base file behind a marker.

    `task_attempt` is different for retries and speculative copies of one task.

    Raises ServiceBusy and InstantRolledBack with nothing left behind, NotFound when a file of the
    slice is gone, MalformedTable, StorageFailed.
    """
    here = SystemProcesses()
    if context.begun_in == here.here():
        return _rewrite(context, work, storage, task_attempt)
    name = build_attempt_token(context.attempt, partition=work.number, stage=task_attempt)
    with record_writer(storage, context.instant, here, str(name)):
        return _rewrite(context, work, storage, task_attempt)


def _rewrite(
    context: RewriteContext, work: GroupRewrite, storage: Storage, task_attempt: int
) -> WriteStat:
    token = build_attempt_token(context.attempt, partition=work.number, stage=task_attempt)
    name = BaseFileName(work.file_id, token, context.instant).text
    old = work.slice
    path = join(old.partition, name)
    confirm_attempt(storage, context.instant, context.attempt)
    is_merge = old.base_file is not None and not work.is_new_group
    io_type = IOType.MERGE if is_merge else IOType.CREATE
    DirectMarkers(storage, context.instant).create(Marker(old.partition, name, io_type))
    ensure_partition(storage, old.partition, context.instant)
    count = _LogRows(old)
    slice_ = FileSlice(old.partition, old.file_id, old.base_instant, old.base_file, old.log_files)
    states, facts = build_file_states(context), MergeFacts()
    if states is None:
        rows = read_merged_parts(context, slice_, storage)
    else:
        rows = map(states.rows, read_state_parts(context, slice_, storage, facts))
    parts = (count.count_part(with_file_name(part, name)) for part in rows)
    written = write_base_parts(
        storage,
        path,
        parts,
        avro_schema=context.schema.with_meta_avro(),
        more_footer=states.footer if states is not None else dict,
        key_filter=BloomFilterBuilder.of(context.config.bloom),
        **context.compression,
    )
    _delete_if_replaced(context, path, storage)
    is_first = work.is_new_group or old.base_file is None
    return WriteStat(
        file_id=work.file_id,
        path=path,
        partition_path=old.partition,
        prev_commit=_NEW_FILE_GROUP if is_first else old.base_instant,
        num_writes=written.rows,
        num_inserts=written.rows if work.is_new_group else 0,
        num_updates=0 if work.is_new_group else count.rows,
        bytes=written.bytes,
        prev_base_file=None if is_first else (old.base_file or "").rpartition("/")[2],
        groups=add_facts([facts.by_group(), states.by_group()]) if states is not None else {},
    )


@dataclass(slots=True)
class _LogRows:
    """Counts the rows of the new file that came from the slice's logs."""

    old: PlannedSlice
    rows: int = 0

    def count_part(self, part: pa.Table) -> pa.Table:
        log_instants = {parse_name_instant(path.rpartition("/")[2]) for path in self.old.log_files}
        instants = pa.array(sorted(instant for instant in log_instants if instant), pa.string())
        written = pc.is_in(part.column(COMMIT_TIME), value_set=instants)
        self.rows += int(np.count_nonzero(written.to_numpy()))
        return part


def _delete_if_replaced(context: RewriteContext, path: str, storage: Storage) -> None:
    """Delete the file if another attempt took over: that may have listed after our marker and
    before our file.
    """
    try:
        confirm_attempt(storage, context.instant, context.attempt)
    except (ServiceBusy, InstantRolledBack):
        storage.delete(path)
        raise
