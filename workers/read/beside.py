"""A slice merged beside its base file: which rows are dead, and what its logs add.

The base file is read by somebody else, who knows nothing of merging and drops the dead rows. So
rows have addresses: of the base file the checksum of its path and the row's position, of the logs
the slice's number and the position among all versions. Only key and ordering columns are read to
tell the dead; only the logs' rows are handed over.

Rows that are folded from several versions (partial updates, a registered merger) are handed over
whole: then every base row that the logs touch is dead, and no row of the logs is.
"""

from __future__ import annotations

import zlib
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
from workers.merge.merge import DELETED, ROW, MergeRule, chosen, merge, without_deletes
from workers.read.log_versions import IS_DELETED, LogReader, with_meta
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

ADDRESS = "_sluice_row"
POSITION_BITS = 31
_Addresses = np.ndarray[tuple[int], np.dtype[np.int64]]
_Block = ParquetData | AvroData | Deletes


@dataclass(frozen=True, slots=True)
class SliceBeside:
    storage: Storage
    config: TableConfig
    schema: TableSchema
    rule: MergeRule
    slice_: FileSlice
    number: int
    """Tells the slices of one read apart."""

    def dead(self) -> _Addresses:
        """Addresses of the rows that do not count. Raises NotFound, MalformedTable."""
        blocks = self._reader(frozenset()).blocks(self.slice_)
        columns = {RECORD_KEY, IS_DELETED, self.rule.ordering_field or RECORD_KEY}
        newer = self._reader(columns).versions_of(blocks)
        if newer is None:
            return np.empty(0, dtype=np.int64)
        base = self._base(columns)
        if self._is_folded(blocks):
            keys = newer.column(RECORD_KEY).combine_chunks()
            return self._base_addresses(_true(pc.is_in(base.column(RECORD_KEY), value_set=keys)))
        gives_way, standing = chosen(base, newer, self.rule.ordering_field)
        loses = np.ones(newer.num_rows, dtype=np.bool_)
        loses[standing] = False
        return np.concatenate(
            [
                self._base_addresses(np.flatnonzero(gives_way)),
                self._log_addresses(np.flatnonzero(loses)),
            ]
        )

    def added(self, columns: Sequence[str]) -> pa.Table:
        """The logs' rows, dead ones among them, with their addresses in the last column."""
        blocks = self._reader(frozenset()).blocks(self.slice_)
        if self._is_folded(blocks):
            rows = self._folded(blocks)
            live = np.arange(rows.num_rows)
        else:
            needed = {*columns, IS_DELETED}
            newer = self._reader(needed).versions_of(blocks)
            rows = self._empty() if newer is None else newer
            live = _rows(rows)
            rows = rows if len(live) == rows.num_rows else rows.take(live)
        addresses = pa.array(self._log_addresses(live), pa.int64())
        field = pa.field(ADDRESS, pa.int64(), nullable=False)
        return rows.select(list(columns)).append_column(field, addresses)

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

    def _base_addresses(self, positions: _Addresses) -> _Addresses:
        assert self.slice_.base_file is not None, self.slice_
        return (file_number(self.slice_.base_file) << POSITION_BITS) + positions

    def _log_addresses(self, positions: _Addresses) -> _Addresses:
        """Below zero, where no base row is."""
        return -1 - ((self.number << POSITION_BITS) + positions)


def file_number(path: str) -> int:
    """32 bits of a file's path; whoever reads several files checks that theirs differ."""
    return zlib.crc32(path.encode())


def _typed(rows: pa.Table, schema: TableSchema, ordering: str | None) -> pa.Table:
    """An ordering column whose type was widened since compares as what it is now."""
    if ordering is None or ordering not in rows.column_names:
        return rows
    at = rows.column_names.index(ordering)
    field = schema.arrow.field(ordering)
    return rows.set_column(at, field, rows.column(ordering).cast(field.type))


def _rows(versions: pa.Table) -> _Addresses:
    if DELETED not in versions.column_names:
        return np.arange(versions.num_rows)
    kinds: Any = versions.column(DELETED)
    return np.flatnonzero(np.asarray(pc.fill_null(kinds, ROW).to_numpy()) == ROW)


def _true(mask: Any) -> _Addresses:
    return np.flatnonzero(mask.to_numpy())
