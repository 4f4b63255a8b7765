"""A slice merged beside its base file: which base rows are dead, and what its logs add.

The base file is read by somebody else, who knows nothing of merging and drops the dead rows, given
as one bit per position. Only key and ordering columns are read to find them; only rows of the logs
are handed over.

Rows that are folded from several versions (partial updates, a registered merger) are handed over
whole: then every base row that the logs touch is dead. Tables with column groups are not read in
this way, because the base rows that logs touch would be needed here as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_file import highest_in_base_file, read_base_file
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.files.meta_columns import RECORD_KEY
from workers.merge.merge import choose_winners, find_greatest, merge, select_winners
from workers.merge.rule import MergeRule
from workers.merge.versions import without_deletes
from workers.options.table_options import TableConfig
from workers.read.conformed import with_meta
from workers.read.log_versions import IS_DELETED, LogReader
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

_WORD_BYTES = 8
_HALF_WORD = 32
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
_Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
_Block = ParquetData | AvroData | Deletes


@dataclass(frozen=True, slots=True)
class SliceBeside:
    """The merge of a slice that has a base file, for whoever reads that file itself."""

    storage: Storage
    config: TableConfig
    schema: TableSchema
    rule: MergeRule
    slice_: FileSlice

    def dead(self) -> Mask:
        """Which of the base file's rows are dead, by position. Raises NotFound, MalformedTable."""
        blocks = self._reader(frozenset()).blocks(self.slice_)
        newer = self._reader(self._deciding()).versions_of(blocks, self.slice_)
        base = self._base(self._deciding())
        if newer is None:
            return np.zeros(base.num_rows, dtype=np.bool_)
        if self._is_folded(blocks):
            keys = newer.column(RECORD_KEY).combine_chunks()
            touched: Any = pc.is_in(base.column(RECORD_KEY), value_set=keys)
            return np.asarray(touched.to_numpy())
        gives_way, _ = choose_winners(base, newer, self.rule.ordering_field)
        return gives_way

    def added(self, columns: Sequence[str]) -> pa.Table:
        """The rows of the logs that survive, with these columns. Raises NotFound,
        MalformedTable.
        """
        blocks = self._reader(frozenset()).blocks(self.slice_)
        if self._is_folded(blocks):
            return self._folded(blocks).select(list(columns))
        newer = self._reader({*columns, *self._deciding()}).versions_of(blocks, self.slice_)
        if newer is None or newer.num_rows == 0:
            return with_meta(self.schema.arrow.empty_table(), self.schema).select(list(columns))
        return select_winners(newer, self._winners(newer)).select(list(columns))

    def _winners(self, newer: pa.Table) -> _Positions:
        ordering = self.rule.ordering_field
        if ordering is None or self._is_all_newer(newer.column(ordering)):
            return find_greatest(newer, ordering)
        _, winners = choose_winners(self._base(self._deciding()), newer, ordering)
        return winners

    def _is_all_newer(self, orderings: pa.ChunkedArray[Any]) -> bool:
        """Whether the base file's footer shows that no base row can win. It may be so and not be
        shown.
        """
        assert self.slice_.base_file is not None, self.slice_
        assert self.rule.ordering_field is not None, self.rule
        field = pa.field(self.rule.ordering_field, orderings.type)
        highest = highest_in_base_file(self.storage, self.slice_.base_file, field)
        return are_all_newer(orderings, highest)

    def _deciding(self) -> set[str]:
        return {RECORD_KEY, IS_DELETED, self.rule.ordering_field or RECORD_KEY}

    def _folded(self, blocks: Sequence[_Block]) -> pa.Table:
        newer = self._reader(None).versions_of(blocks, self.slice_)
        base = self._base(None)
        if newer is None:
            return base.slice(0, 0)
        keys = newer.column(RECORD_KEY).combine_chunks()
        touched = base.filter(pc.is_in(base.column(RECORD_KEY), value_set=keys))
        versions = pa.concat_tables([touched, newer], promote_options="default")
        return without_deletes(merge(versions, self.rule))

    def _is_folded(self, blocks: Sequence[_Block]) -> bool:
        """By the blocks alone, so that both sides agree whatever columns they read."""
        flagged = any(not isinstance(one, Deletes) and one.is_partial for one in blocks)
        return flagged or self.rule.is_folding

    def _reader(self, columns: set[str] | frozenset[str] | None) -> LogReader:
        return LogReader(self.storage, self.config, self.schema, columns)

    def _base(self, columns: set[str] | None) -> pa.Table:
        assert self.slice_.base_file is not None, self.slice_
        if columns is None:
            return with_meta(read_base_file(self.storage, self.slice_.base_file), self.schema, None)
        names = sorted(columns - {IS_DELETED})
        rows = read_base_file(self.storage, self.slice_.base_file, names)
        return _typed(rows, self.schema, self.rule.ordering_field)


def are_all_newer(orderings: pa.ChunkedArray[Any], highest: int | None) -> bool:
    """Whether no ordering value is below the greatest of a base file, as its footer says it."""
    if highest is None or orderings.null_count or not len(orderings):
        return False
    lowest: Any = pc.min(orderings)
    return bool(lowest.cast(_number_type(orderings.type)).as_py() >= highest)


def bits_of(mask: Mask) -> pa.Array[Any]:
    """A mask as whole 64-bit numbers, the lowest bit first."""
    packed = np.packbits(mask, bitorder="little")
    whole = np.zeros(-(-len(packed) // _WORD_BYTES) * _WORD_BYTES, np.uint8)
    whole[: len(packed)] = packed
    return pa.array(whole.view("<i8"), pa.int64())


def _number_type(counted: pa.DataType) -> pa.DataType:
    return pa.int32() if counted.bit_width == _HALF_WORD else pa.int64()


def _typed(rows: pa.Table, schema: TableSchema, ordering: str | None) -> pa.Table:
    """An ordering column whose type was widened since compares as what it is now."""
    if ordering is None or ordering not in rows.column_names:
        return rows
    at = rows.column_names.index(ordering)
    field = schema.arrow.field(ordering)
    return rows.set_column(at, field, rows.column(ordering).cast(field.type))
