"""Everything that an executor needs to write, and nothing else: it never reads the timeline.

Small and picklable. A new need of executors goes here, not into globals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from workers.clock import InstantTime
from workers.concurrency.new_partitions import PartitionsAtStart
from workers.files.compression import Compression, get_compression
from workers.files.names import FileId, bucket_file_id, new_file_id
from workers.markers.base import MarkerSettings
from workers.merge.rule import MergeRule
from workers.options.insert_size import InsertSizing
from workers.options.table_options import TableConfig
from workers.options.write_options import DEFAULT_SIZING, WriteOptions
from workers.processes import ProcessName
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice

Operation = Literal[
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
REPLACING: frozenset[Operation] = frozenset(
    ("insert_overwrite", "insert_overwrite_table", "delete_partition")
)
"""What takes whole file groups away: replacecommits."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """One write as its tasks see it. `build_snapshot_context` makes it on the driver."""

    location: str
    instant: InstantTime
    operation: Operation
    config: TableConfig
    schema: TableSchema
    """The writer schema: the table's at start plus the batch's new columns."""
    columns: tuple[str, ...]
    """What the files of this write hold, in the schema's order: all of it, or a stream's own
    columns.
    """
    slices: Mapping[tuple[str, int], FileSlice]
    """(partition, slot) -> the slice that was visible at the start. The slot of a file group is its
    bucket. Under an index that looks up keys it is the position among the existing file groups of
    its partition, and new ones get the numbers behind them.
    """
    replaced_at: Mapping[str, InstantTime]
    """Partition -> the newest commit that replaced a file group of it."""
    partitions: PartitionsAtStart
    markers: MarkerSettings
    writer: str
    appends_only: bool
    """Non-blocking mode: always an own log file, never a base file."""
    options: WriteOptions
    rule: MergeRule
    """Made on the driver: executors need not have registered the table's merger."""
    marks_deletes: bool = False
    """The batch has `_hoodie_is_deleted`, which marks its deletes."""
    sizing: InsertSizing = DEFAULT_SIZING
    """How inserts are assigned to file groups, under an index that looks up keys."""
    padded: frozenset[tuple[str, int]] = frozenset()
    """Standing file groups that take inserts, so that a new base file is written of them."""
    revived: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """See `TaggedRows.revived`."""
    left: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """See `TaggedRows.left`."""
    kept_apart: frozenset[tuple[str, int]] = frozenset()
    """Standing file groups that a pending plan holds: they take no inserts."""
    emptied: tuple[str, ...] = ()
    """Partitions that the write replaces besides those that its rows name."""
    keeps_read_rows: bool = False
    """For a non-blocking write: see `WriteRequest.takes_along`."""
    needs_rows: bool = False
    """For a non-blocking write: see `WriteRequest.needs_rows`."""
    begun_in: ProcessName | None = None
    """Whose heartbeat names it. Others who write are noted while they do (`list_late_writers`)."""

    @property
    def looks_up(self) -> bool:
        """True if rows find their file group by their key in files, and not by a bucket."""
        return self.config.looks_up

    def current_slice(self, partition: str, slot: int) -> FileSlice | None:
        """Return the slice that the rows of this slot are merged into; None when it is being
        replaced.
        """
        return None if self.operation in REPLACING else self.slices.get((partition, slot))

    def file_id(self, partition: str, slot: int) -> FileId:
        """Return the existing file group's id, else the one that every writer of this snapshot
        picks.
        """
        if (current_slice := self.current_slice(partition, slot)) is not None:
            return current_slice.file_id
        if self.looks_up:
            return new_file_id(self.instant, partition, str(slot))
        replacing = self.operation in REPLACING
        after = self.instant if replacing else self.replaced_at.get(partition)
        return bucket_file_id(slot, after=after)

    def appends_log(self, partition: str, slot: int) -> bool:
        """Check whether a write of rows adds a log to this slot's file group; else a base file."""
        current_slice = self.current_slice(partition, slot)
        takes_logs = self.config.is_merge_on_read and (partition, slot) not in self.padded
        return self.appends_only or (current_slice is not None and takes_logs)

    @property
    def own_columns(self) -> list[str]:
        """The written columns without those that locate and order rows."""
        shared = {*self.config.record_key, *self.config.partition_by, *self.config.ordering}
        return [name for name in self.columns if name not in shared]

    @property
    def compression(self) -> Compression:
        """The compression of parquet files and blocks of this write: arguments for their
        writers.
        """
        return get_compression(self.options.codec)

    @property
    def is_narrow(self) -> bool:
        """True if this write brings some of the table's columns only."""
        return len(self.columns) < len(self.schema.field_names)
