"""The log files of a slice as versions for the merge: which blocks count, and what each row says.

Blocks stand in the order of merging. A rollback command takes back every earlier block of its
target, however far back and in whichever file of the slice (bug B15).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import MalformedTable, UnsupportedTable
from workers.files.delete_record import ERASES, DeleteRecord
from workers.files.log_block import AvroData, Deletes, LogBlock, ParquetData, Rollback
from workers.files.log_file import open_log_file
from workers.files.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from workers.merge.versions import (
    ABSENT,
    DELETE,
    DELETE_NOW,
    DELETED,
    DELETED_FIELD,
    MOVED_AWAY,
    with_columns,
)
from workers.options.table_keys import MergeMode
from workers.options.table_options import TableConfig
from workers.read.completed_rows import completed, needed_columns
from workers.read.conformed import conformed
from workers.read.states import block_states, deciding_columns, empty_states, physical_columns
from workers.read.torn_logs import check_torn
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

IS_DELETED = "_hoodie_is_deleted"
"""A row whose boolean column of this name is true deletes its key (format page 5.5)."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reads the logs of slices as rows under `schema`, with only those `columns` of it and of the
    meta columns.
    """

    storage: Storage
    config: TableConfig
    schema: TableSchema
    columns: Collection[str] | None = None

    def versions(self, slice_: FileSlice) -> pa.Table | None:
        """What the logs say, oldest first, with `DELETED` and `ABSENT` columns where needed; None
        when they say nothing.

        Raises NotFound, MalformedTable, UnsupportedTable for a block that we would merge wrongly.
        """
        return self.versions_of(self.blocks(slice_), slice_)

    def blocks(self, slice_: FileSlice) -> list[ParquetData | AvroData | Deletes]:
        """Blocks that count, oldest first. Raises NotFound, MalformedTable, UnsupportedTable."""
        blocks = [block for path in slice_.log_files for block in self._of_file(path)]
        counting = visible_blocks(blocks, slice_)
        if counting and self.config.groups is None:
            self._check_ordering()
        return counting

    def _of_file(self, path: str) -> list[LogBlock]:
        log = open_log_file(self.storage, path)
        if log.skipped_bytes or not log.blocks:
            check_torn(self.storage, self.config, path)
        return log.blocks

    def versions_of(
        self, blocks: Sequence[ParquetData | AvroData | Deletes], slice_: FileSlice
    ) -> pa.Table | None:
        """As `versions`, of blocks of the slice that were read before."""
        tables = [self._block_versions(block, slice_) for block in blocks]
        if not tables:
            return None
        if keyless := sum(rows.column(RECORD_KEY).null_count for rows in tables):
            raise MalformedTable(
                "a log has rows without a record key",
                rows=keyless,
                partition=slice_.partition,
                file_group=slice_.file_id,
            )
        if (groups := self.config.groups) is not None:
            empty = empty_states(groups, self.schema, self._needed)
            return pa.concat_tables([empty, *tables], promote_options="default")
        empty = self._conformed(self.schema.arrow.empty_table())
        return pa.concat_tables([empty, *tables], promote_options="default")

    @property
    def _needed(self) -> set[str] | None:
        """Groups are told apart by columns that nobody may have asked for."""
        assert self.config.groups is not None, self.config.name
        if self.columns is None:
            return None
        return {*self.columns, *deciding_columns(self.config.groups, self.schema)}

    def _conformed(self, rows: pa.Table) -> pa.Table:
        """Of the meta columns the key, and those that are wanted."""
        wanted = self.columns
        meta = [one for one in META_COLUMNS if wanted is None or one == RECORD_KEY or one in wanted]
        return conformed(rows, self.schema, wanted, meta)

    def _check_ordering(self) -> None:
        is_ordered = self.config.merge_mode is MergeMode.EVENT_TIME_ORDERING
        if is_ordered and len(self.config.ordering) > 1:
            raise UnsupportedTable(
                "logs are not merged by several ordering fields: compact the table with the engine "
                "that wrote it, or read it as read_optimized",
                ordering=self.config.ordering,
            )
        field = self.config.ordering_field
        if field is not None and field not in self.schema.field_names:
            raise MalformedTable(
                "logs cannot be merged, because the table is ordered by a column that it does not "
                "have: correct the ordering field in hoodie.properties, or read it as "
                "read_optimized",
                ordering=field,
                columns=self.schema.field_names,
            )

    def _block_versions(
        self, block: ParquetData | AvroData | Deletes, slice_: FileSlice
    ) -> pa.Table:
        if isinstance(block, Deletes):
            return self._deletes(block)
        if (groups := self.config.groups) is not None:
            rows = block.table(physical_columns(groups, self.schema, self._needed))
            return block_states(rows, block.field_names, groups, self.schema, self._needed)
        wanted = None if self.columns is None else {*self.columns, RECORD_KEY}
        stored = block.table(needed_columns(self.config, wanted))
        whole = completed(
            stored,
            self.config,
            self.schema,
            partition=slice_.partition,
            instant=block.instant,
            file_name=slice_.file_id,
        )
        rows = self._conformed(whole)
        if block.is_partial and not self.config.is_partial_update:
            rows = self._silent_where_absent(block, rows)
        if IS_DELETED in rows.column_names:
            flag: Any = rows.column(IS_DELETED)
            kinds: Any = pc.if_else(pc.fill_null(flag, False), DELETE, 0)
            rows = rows.append_column(DELETED_FIELD, kinds.cast(pa.int8()))
        return rows

    def _silent_where_absent(self, block: ParquetData | AvroData, rows: pa.Table) -> pa.Table:
        """A flagged block says nothing about the columns that it lacks."""
        if self.config.merger is not None:
            raise UnsupportedTable(
                "partial log blocks are not read with a registered merger, which sees whole rows",
                instant=block.instant,
            )
        present = set(block.field_names)
        silent = {
            ABSENT + name: pa.repeat(pa.scalar(True), rows.num_rows)
            for name in rows.column_names
            if name not in META_COLUMNS and name not in present
        }
        return with_columns(rows, silent)

    def _deletes(self, block: Deletes) -> pa.Table:
        other = DELETE if self.config.groups is None else MOVED_AWAY
        kinds = [DELETE_NOW if one.ordering in ERASES else other for one in block.records]
        columns: dict[str, Any] = {
            RECORD_KEY: pa.array([one.key for one in block.records], pa.string()),
            DELETED: pa.array(kinds, pa.int8()),
        }
        if self.columns is None or PARTITION_PATH in self.columns:
            partitions = [one.partition for one in block.records]
            columns[PARTITION_PATH] = pa.array(partitions, pa.string())
        if field := self.config.ordering_field:
            columns[field] = self._orderings(block.records, field)
        return pa.table(columns)

    def _orderings(self, records: Sequence[DeleteRecord], field: str) -> pa.Array[Any]:
        target: Any = self.schema.arrow.field(field).type
        values = [
            None if one.ordering is None or one.ordering in ERASES else one.ordering[1]
            for one in records
        ]
        try:
            return _cast(values, target)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise MalformedTable(
                "delete block orders by values of another type", column=field, type=target
            ) from error


def visible_blocks(
    blocks: Sequence[LogBlock], slice_: FileSlice
) -> list[ParquetData | AvroData | Deletes]:
    """Those whose instant counts and that no later command takes back, in their order."""
    taken_back: set[str] = set()
    visible: list[ParquetData | AvroData | Deletes] = []
    for block in reversed(blocks):
        if isinstance(block, Rollback):
            taken_back.add(block.target)
        elif block.instant not in taken_back and _counts(block.instant, slice_):
            visible.append(block)
    return visible[::-1]


def _counts(instant: str, slice_: FileSlice) -> bool:
    if slice_.late_blocks is not None:
        return instant not in slice_.late_blocks
    if slice_.block_instants is None or instant in slice_.block_instants:
        return True
    return slice_.archived_before is not None and instant < slice_.archived_before


def _cast(values: list[Any], target: Any) -> pa.Array[Any]:
    """Wrappers give dates, times and decimals as such, or the numbers that stand for them."""
    orderings: Any = pa.nulls(len(values), target)
    if pa.types.is_decimal(target):
        orderings = pa.array(values, pa.decimal128(38, 15)).cast(target)
    elif any(value is not None for value in values):
        orderings = pa.array(values)
        is_number = pa.types.is_integer(orderings.type)
        orderings = orderings.cast(
            pa.int32() if is_number and target == pa.date32() else orderings.type
        )
        # Beyond 2^53 a double holds the nearest that it can: the column was a long once.
        orderings = orderings.cast(target, safe=not pa.types.is_floating(target))
    assert isinstance(orderings, pa.Array)
    return orderings
