"""A slice merged beside its base file: which rows are dead, and what its logs add.

The base file is read by somebody else, who knows nothing of merging and drops the dead rows. So
dead rows are told as one bit per position, of the base file and among all versions of the logs.
Only key and ordering columns are read to tell the dead; only the logs' rows are handed over.

Rows that are folded from several versions (partial updates, a registered merger) are handed over
whole: then every base row that the logs touch is dead, and no row of the logs is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.config import TableConfig
from workers.files.base_file import read_base_file
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.files.meta_columns import RECORD_KEY
from workers.merge.merge import (
    DELETED,
    ROW,
    MergeRule,
    chosen,
    greatest,
    merge,
    without_deletes,
)
from workers.read.log_versions import IS_DELETED, LogReader, with_meta
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

POSITION = "_sluice_position"
_WORD_BYTES = 8
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
_Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
_Block = ParquetData | AvroData | Deletes


@dataclass(frozen=True, slots=True)
class Dead:
    """Which rows do not count, by their positions."""

    base: Mask
    logs: Mask


@dataclass(frozen=True, slots=True)
class SliceBeside:
    storage: Storage
    config: TableConfig
    schema: TableSchema
    rule: MergeRule
    slice_: FileSlice

    def dead(self) -> Dead:
        """Raises NotFound, MalformedTable."""
        blocks = self._reader(frozenset()).blocks(self.slice_)
        columns = {RECORD_KEY, IS_DELETED, self.rule.ordering_field or RECORD_KEY}
        newer = self._reader(columns).versions_of(blocks)
        base = self._base(columns)
        if newer is None:
            return Dead(_none(base.num_rows), _none(0))
        if self._is_folded(blocks):
            keys = newer.column(RECORD_KEY).combine_chunks()
            touched: Any = pc.is_in(base.column(RECORD_KEY), value_set=keys)
            return Dead(np.asarray(touched.to_numpy()), _none(1))
        gives_way, standing = chosen(base, newer, self.rule.ordering_field)
        loses = ~_none(newer.num_rows)
        loses[standing] = False
        return Dead(gives_way, loses)

    def added(self, columns: Sequence[str]) -> pa.Table:
        """The logs' rows, with their positions in the last column.

        Dead ones are left out where another log says so; what loses to the base file is among them.
        Folded rows share the position 0, which is not dead.
        """
        blocks = self._reader(frozenset()).blocks(self.slice_)
        if self._is_folded(blocks):
            rows = self._folded(blocks)
            positions = pa.array(np.zeros(rows.num_rows, np.int64))
        else:
            wanted = {*columns, RECORD_KEY, IS_DELETED, self.rule.ordering_field or RECORD_KEY}
            newer = self._reader(wanted).versions_of(blocks)
            rows = self._empty() if newer is None else newer
            live = self._greatest_rows(rows)
            rows = rows if len(live) == rows.num_rows else rows.take(live)
            positions = pa.array(live)
        field = pa.field(POSITION, pa.int64(), nullable=False)
        return rows.select(list(columns)).append_column(field, positions)

    def _greatest_rows(self, versions: pa.Table) -> _Positions:
        """In the order of the logs."""
        is_row = _none(versions.num_rows)
        is_row[greatest(versions, self.rule.ordering_field)] = True
        if DELETED in versions.column_names:
            kinds: Any = versions.column(DELETED)
            is_row &= np.asarray(pc.fill_null(kinds, ROW).to_numpy()) == ROW
        return np.flatnonzero(is_row)

    def _folded(self, blocks: Sequence[_Block]) -> pa.Table:
        newer = self._reader(None).versions_of(blocks)
        base = self._base(None)
        if newer is None:
            return base.slice(0, 0)
        keys = newer.column(RECORD_KEY).combine_chunks()
        touched = base.filter(pc.is_in(base.column(RECORD_KEY), value_set=keys))
        versions = pa.concat_tables([touched, newer], promote_options="default")
        return without_deletes(merge(versions, self.rule))

    def _is_folded(self, blocks: Sequence[_Block]) -> bool:
        """Told from the blocks alone, so that both passes agree whatever columns they read."""
        flagged = any(not isinstance(one, Deletes) and one.is_partial for one in blocks)
        return flagged or self.rule.is_partial or self.rule.merger is not None

    def _reader(self, columns: set[str] | frozenset[str] | None) -> LogReader:
        return LogReader(self.storage, self.config, self.schema, columns)

    def _base(self, columns: set[str] | None) -> pa.Table:
        assert self.slice_.base_file is not None, self.slice_
        if columns is None:
            return with_meta(read_base_file(self.storage, self.slice_.base_file), self.schema, None)
        names = sorted(columns - {IS_DELETED})
        rows = read_base_file(self.storage, self.slice_.base_file, names)
        return _typed(rows, self.schema, self.rule.ordering_field)

    def _empty(self) -> pa.Table:
        return with_meta(self.schema.arrow.empty_table(), self.schema, None)


def bits_of(mask: Mask) -> pa.Array[Any]:
    """A mask as whole 64-bit numbers, the lowest bit first."""
    packed = np.packbits(mask, bitorder="little")
    whole = np.zeros(-(-len(packed) // _WORD_BYTES) * _WORD_BYTES, np.uint8)
    whole[: len(packed)] = packed
    return pa.array(whole.view("<i8"), pa.int64())


def _none(rows: int) -> Mask:
    return np.zeros(rows, dtype=np.bool_)


def _typed(rows: pa.Table, schema: TableSchema, ordering: str | None) -> pa.Table:
    """An ordering column whose type was widened since compares as what it is now."""
    if ordering is None or ordering not in rows.column_names:
        return rows
    at = rows.column_names.index(ordering)
    field = schema.arrow.field(ordering)
    return rows.set_column(at, field, rows.column(ordering).cast(field.type))
