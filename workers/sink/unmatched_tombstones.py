"""Count the tombstones of a transaction whose keys have no row.

A key that is formatted differently from the rows' keys deletes nothing, which the counts make
visible. The rows are searched in the keys of the tombstones' file groups, and among earlier records
of the same participant. The search is bounded. A tombstone whose search would need too much memory
or too many bytes is counted as unchecked, which is not an error.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import MalformedTable, NotFound
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.read.file_slice import read_slice
from workers.sink.batch import Offsets
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.prepare import SLOT

TOMBSTONES_MAX = 100_000
"""Most tombstones of one transaction and partition that are checked."""
_SLICE_BYTES_MAX = 64 << 20
"""Most bytes of file groups that are read for the check."""
ROW, DELETE, TOMBSTONE = range(3)
_KIND, _OFFSET = "kind", "offset"
_COLUMNS = [RECORD_KEY, PARTITION_PATH, SLOT]
_log = logging.getLogger(__name__)
_Key = tuple[str, str]
"""Table partition and record key."""


@dataclass(frozen=True, slots=True)
class TombstoneCounts:
    """Tombstones of one participant in one transaction: all of them, those whose key has no row,
    and those that were not checked.
    """

    total: int = 0
    unmet: int = 0
    not_looked_for: int = 0


NO_TOMBSTONES = TombstoneCounts()


class TombstoneCounter:
    """Counter of the tombstones of one participant in one transaction."""

    def __init__(self, context: WriteContext, storage: Storage, bytes_max: int) -> None:
        self._context, self._storage = context, storage
        self._bytes_left = bytes_max
        self._parts: list[pa.Table] = []
        self._taken = 0
        self._is_over = False

    def add(self, prepared: pa.Table, offsets: Offsets, kind: int) -> None:
        """Add records of the transaction, in any order. The offsets define their order."""
        if kind == TOMBSTONE:
            self._taken += prepared.num_rows
        if self._is_over or not prepared.num_rows:
            return
        part = prepared.select(_COLUMNS)
        self._bytes_left -= part.nbytes
        if self._bytes_left < 0 or self._taken > TOMBSTONES_MAX:
            self._is_over, self._parts = True, []
            return
        kinds: Any = pa.repeat(pa.scalar(kind, pa.int8()), part.num_rows)
        part = part.append_column(_KIND, kinds).append_column(_OFFSET, pa.array(offsets))
        self._parts.append(part)

    def count(self) -> TombstoneCounts:
        """Return the counts, at the end of the transaction."""
        if not self._taken:
            return NO_TOMBSTONES
        if self._is_over:
            return TombstoneCounts(self._taken, 0, self._taken)
        records = pa.concat_tables(self._parts).sort_by(_OFFSET)
        stones = records.filter(pc.field(_KIND) == TOMBSTONE)
        is_sought: Any = pc.is_in(records.column(RECORD_KEY), stones.column(RECORD_KEY))
        unmet, first = _scan_records(records.filter(is_sought))
        checked, matched = self._count_keys_with_rows(first)
        return TombstoneCounts(self._taken, unmet + checked - matched, len(first) - checked)

    def _count_keys_with_rows(self, wanted_keys: Mapping[_Key, int]) -> tuple[int, int]:
        """Return how many of these keys were checked and how many have a row. Values are slots."""
        by_group: dict[tuple[str, int], list[str]] = defaultdict(list)
        for (path, key), slot in wanted_keys.items():
            by_group[path, slot].append(key)
        checked = matched = 0
        bytes_left = _SLICE_BYTES_MAX
        for (path, slot), keys in by_group.items():
            slice_ = self._context.current_slice(path, slot)
            if slice_ is None:
                checked += len(keys)
                continue
            try:
                bytes_left -= self._sum_bytes(slice_)
                held = self._read_keys(slice_) if bytes_left >= 0 else None
            except (NotFound, MalformedTable) as error:
                # A service may have deleted its files since the transaction began.
                _log.info("tombstones are not looked for: file_id=%s: %s", slice_.file_id, error)
                continue
            if held is not None:
                checked += len(keys)
                is_held: Any = pc.is_in(pa.array(keys), held)
                matched += int(pc.sum(is_held).as_py() or 0)
        return checked, matched

    def _sum_bytes(self, slice_: FileSlice) -> int:
        file_infos = [self._storage.info(path) for path in slice_.files]
        return sum(file_info.size for file_info in file_infos if file_info is not None)

    def _read_keys(self, slice_: FileSlice) -> Any:
        context = self._context
        rows = read_slice(
            self._storage,
            context.config,
            context.schema,
            slice_,
            columns=[RECORD_KEY],
            rule=context.rule,
        )
        return rows.column(RECORD_KEY)


def _scan_records(records: pa.Table) -> tuple[int, dict[_Key, int]]:
    """Count the tombstones that follow a delete of their key. Also return the keys whose first
    record in the transaction is a tombstone, with their slots.
    """
    unmet, first = 0, dict[_Key, int]()
    is_there: dict[_Key, bool] = {}
    columns = [records.column(name).to_pylist() for name in (*_COLUMNS, _KIND)]
    for key, path, slot, kind in zip(*columns, strict=True):
        place = (path, key)
        if kind == TOMBSTONE and place not in is_there:
            first[place] = slot
        unmet += kind == TOMBSTONE and is_there.get(place) is False
        is_there[place] = kind == ROW
    return unmet, first
