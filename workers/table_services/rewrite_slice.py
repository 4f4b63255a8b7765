"""Rewriting one file slice into one new base file: what compaction and clustering share.

Runs on executors and in plain processes alike. It sees its context and its slice, never the
timeline. The attempt is asked about before the marker and after the file, so an executor that slept
through its own replacement takes its file back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.concurrency.late_writers import writing
from workers.errors import InstantRolledBack, ServiceBusy
from workers.files.base_file import write_base_parts
from workers.files.compression import Compression
from workers.files.meta_columns import COMMIT_TIME, with_file_name
from workers.files.names import BaseFileName, instant_of
from workers.files.partition import ensure_partition
from workers.index.bloom_filter import BloomFilterBuilder
from workers.markers.direct import DirectMarkers
from workers.markers.marker import IOType, Marker
from workers.merge.group_file import StatesOfFile
from workers.merge.merge_facts import MergeFacts
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.processes import ProcessName, SystemProcesses
from workers.read.file_slice import (
    merge_slice_batches,
    merged_state_parts,
    read_slice,
    slice_schema,
)
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage, join
from workers.table.file_group import FileSlice
from workers.table_services.attempt import attempt_token
from workers.table_services.execution import confirm_attempt
from workers.table_services.external_sort import in_places
from workers.table_services.row_order import RowOrder, in_order, sorted_positions
from workers.table_services.slices import bytes_of
from workers.timeline.group_facts import added
from workers.timeline.metadata import WriteStat
from workers.timeline.service_plans import PlannedSlice

_NEW_FILE_GROUP = "null"
_SORTED_WHOLE_BYTES_MAX = 16 << 20
"""Of files as they stand on storage; in memory they are some ten times that."""
_SORTED_RANGE_BYTES = 48 << 20


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Everything that an executor needs; small and picklable."""

    location: str
    instant: InstantTime
    attempt: str
    config: TableConfig
    schema: TableSchema
    """The table's when the plan was taken up: every slice is conformed to it."""
    compression: Compression
    order: RowOrder | None = None
    """None keeps the order in which the slice stands."""
    begun_in: ProcessName | None = None
    """Whose heartbeat names the attempt. Others who write are noted while they do."""
    rule: MergeRule = field(init=False)
    """Made here and shipped: executors need not have registered the table's merger."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", MergeRule.of(self.config))


@dataclass(frozen=True, slots=True)
class GroupRewrite:
    """One file slice of a plan, and where its rows go."""

    number: int
    """Of this slice within its plan."""
    slice: PlannedSlice
    file_id: str
    """Of the file group that the new base file belongs to."""

    @property
    def is_new_group(self) -> bool:
        """Whether the rows leave their file group, as of a clustering."""
        return self.file_id != self.slice.file_id


def rewrite_group(
    context: RewriteContext, work: GroupRewrite, storage: Storage, *, task_attempt: int = 0
) -> WriteStat:
    """Merge the slice and write it as one new base file behind a marker.

    `task_attempt` tells retries and speculative copies of one task apart.

    Raises ServiceBusy and InstantRolledBack with nothing left behind, NotFound when a file of the
    slice is gone, MalformedTable, StorageFailed.
    """
    here = SystemProcesses()
    if context.begun_in == here.here():
        return _rewritten(context, work, storage, task_attempt)
    name = attempt_token(context.attempt, partition=work.number, stage=task_attempt)
    with writing(storage, context.instant, here, str(name)):
        return _rewritten(context, work, storage, task_attempt)


def _rewritten(
    context: RewriteContext, work: GroupRewrite, storage: Storage, task_attempt: int
) -> WriteStat:
    token = attempt_token(context.attempt, partition=work.number, stage=task_attempt)
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
    states, facts = _states_of_file(context), MergeFacts()
    if states is None:
        merged_parts = _parts(context, slice_, storage)
    else:
        merged_parts = map(states.rows, _state_parts(context, slice_, storage, facts))
    parts = (count.seen(with_file_name(part, name)) for part in merged_parts)
    written = write_base_parts(
        storage,
        path,
        parts,
        avro_schema=context.schema.with_meta_avro(),
        more_footer=states.footer if states is not None else dict,
        key_filter=BloomFilterBuilder.of(context.config.bloom),
        **context.compression,
    )
    _take_back_if_replaced(context, path, storage)
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
        groups=added([facts.by_group(), states.by_group()]) if states is not None else {},
    )


def _parts(context: RewriteContext, slice_: FileSlice, storage: Storage) -> Iterator[pa.Table]:
    """The merged rows, in pieces. At least one, even empty."""
    yield slice_schema(context.schema).empty_table()
    if context.order is not None:
        yield from _sorted_parts(context, context.order, slice_, storage)
        return
    for batch in _merged(context, slice_, storage):
        yield pa.Table.from_batches([batch])


def _states_of_file(context: RewriteContext) -> StatesOfFile | None:
    groups = context.config.groups
    return None if groups is None else StatesOfFile(groups, context.instant)


def _state_parts(
    context: RewriteContext, slice_: FileSlice, storage: Storage, facts: MergeFacts
) -> Iterator[pa.Table]:
    parts = merged_state_parts(storage, context.config, context.schema, slice_, facts=facts)
    if context.order is None:
        return parts
    # Sorted as a whole: states are not read twice in one order, as sorting by ranges needs.
    return iter([in_order(pa.concat_tables(parts), context.order)])


def _sorted_parts(
    context: RewriteContext, order: RowOrder, slice_: FileSlice, storage: Storage
) -> Iterator[pa.Table]:
    """Small slices are sorted in memory. Of others the columns to sort by come first, by
    themselves, which says where each row goes when it passes.
    """
    if bytes_of(storage, slice_.files) <= _SORTED_WHOLE_BYTES_MAX:
        whole = read_slice(storage, context.config, context.schema, slice_, rule=context.rule)
        yield in_order(whole, order)
        return
    schema = pa.schema([context.schema.arrow.field(name) for name in order.columns])
    # A log may be silent about some columns, and rows that are folded stand elsewhere than others:
    # only with all columns the rows pass in the same order both times.
    columns = None if slice_.log_files else order.columns
    batches = _merged(context, slice_, storage, columns)
    narrow = pa.Table.from_batches([one.select(schema.names) for one in batches], schema)
    positions = sorted_positions(narrow, order)
    places = np.empty_like(positions)
    places[positions] = np.arange(len(positions))
    del narrow, positions
    yield from in_places(_merged(context, slice_, storage), places, range_bytes=_SORTED_RANGE_BYTES)


def _merged(
    context: RewriteContext,
    slice_: FileSlice,
    storage: Storage,
    columns: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    return merge_slice_batches(
        storage, context.config, context.schema, slice_, columns=columns, rule=context.rule
    )


@dataclass(slots=True)
class _LogRows:
    """Counts the rows of the new file that came from the slice's logs."""

    old: PlannedSlice
    rows: int = 0

    def seen(self, part: pa.Table) -> pa.Table:
        log_instants = {instant_of(path.rpartition("/")[2]) for path in self.old.log_files}
        instants = pa.array(sorted(one for one in log_instants if one), pa.string())
        written = pc.is_in(part.column(COMMIT_TIME), value_set=instants)
        self.rows += int(np.count_nonzero(written.to_numpy()))
        return part


def _take_back_if_replaced(context: RewriteContext, path: str, storage: Storage) -> None:
    """Whoever took over after our marker may have listed before our file was there."""
    try:
        confirm_attempt(storage, context.instant, context.attempt)
    except (ServiceBusy, InstantRolledBack):
        storage.delete(path)
        raise
