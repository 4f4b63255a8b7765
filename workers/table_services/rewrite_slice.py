"""Rewrite one file slice into one new base file, for compaction and clustering: merged, in pieces,
and in the order that the plan asks for.

Runs on executors and in plain processes alike. It reads its context and its slice, never the
timeline. The attempt is checked before the marker and after the file, so an executor that stalled
while it was replaced deletes its file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from workers.merge.group_file import StatesOfFile
from workers.merge.merge_facts import MergeFacts
from workers.processes import SystemProcesses
from workers.read.file_slice import (
    merge_slice_batches,
    merged_state_parts,
    read_slice,
    slice_schema,
)
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.table_services.attempt import build_attempt_token
from workers.table_services.execution import confirm_attempt
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.row_order import RowOrder, sort_into_places, sort_positions, sort_rows
from workers.table_services.slices import sum_file_sizes
from workers.timeline.group_facts import add_facts
from workers.timeline.metadata import WriteStat
from workers.timeline.service_plans import PlannedSlice

_NEW_FILE_GROUP = "null"
_SORTED_WHOLE_BYTES_MAX = 16 << 20
"""The size of files on storage; in memory they are some ten times that."""
_SORTED_RANGE_BYTES = 48 << 20


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


def read_merged_parts(
    context: RewriteContext, slice_: FileSlice, storage: Storage
) -> Iterator[pa.Table]:
    """Yield the merged rows, in pieces. At least one, even empty."""
    yield slice_schema(context.schema).empty_table()
    if context.order is not None:
        yield from _read_sorted_parts(context, context.order, slice_, storage)
        return
    for batch in _merge_batches(context, slice_, storage):
        yield pa.Table.from_batches([batch])


def build_file_states(context: RewriteContext) -> StatesOfFile | None:
    """Return what the new base file stores of the ordering values of its cells; None without column
    groups.
    """
    groups = context.config.groups
    return None if groups is None else StatesOfFile(groups, context.instant)


def read_state_parts(
    context: RewriteContext, slice_: FileSlice, storage: Storage, facts: MergeFacts
) -> Iterator[pa.Table]:
    """Yield the merged rows with the ordering values of their cells, in pieces; `facts` count what
    was merged.

    With an order all rows come as one piece. Raises NotFound, MalformedTable.
    """
    parts = merged_state_parts(storage, context.config, context.schema, slice_, facts=facts)
    if context.order is None:
        return parts
    # Sorted as a whole: states are not read twice in one order, as sorting by ranges needs.
    return iter([sort_rows(pa.concat_tables(parts), context.order)])


def _read_sorted_parts(
    context: RewriteContext, order: RowOrder, slice_: FileSlice, storage: Storage
) -> Iterator[pa.Table]:
    """Yield the rows in sorted order. Small slices are sorted in memory. For others the columns to
    sort by are read first, which gives the place of each row when it is read again.
    """
    if sum_file_sizes(storage, slice_.files) <= _SORTED_WHOLE_BYTES_MAX:
        whole = read_slice(storage, context.config, context.schema, slice_, rule=context.rule)
        yield sort_rows(whole, order)
        return
    schema = pa.schema([context.schema.arrow.field(name) for name in order.columns])
    # A log may lack some columns, and folded rows have another place than others:
    # only with all columns the rows pass in the same order both times.
    columns = None if slice_.log_files else order.columns
    batches = _merge_batches(context, slice_, storage, columns)
    narrow = pa.Table.from_batches([batch.select(schema.names) for batch in batches], schema)
    positions = sort_positions(narrow, order)
    places = np.empty_like(positions)
    places[positions] = np.arange(len(positions))
    del narrow, positions
    yield from sort_into_places(
        _merge_batches(context, slice_, storage), places, range_bytes=_SORTED_RANGE_BYTES
    )


def _merge_batches(
    context: RewriteContext,
    slice_: FileSlice,
    storage: Storage,
    columns: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    return merge_slice_batches(
        storage, context.config, context.schema, slice_, columns=columns, rule=context.rule
    )
