"""How many tombstones of a transaction met no row: a key that is spelled in another way than the
rows' deletes nothing, and nobody would hear of it.

Rows are looked for in the keys of the file groups that tombstones touch, and among the records of
the same participant before them. Looking is bounded: what would take too much memory or too many
bytes is counted as not looked for, and is no reason to fail.
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
"""Tombstones of one transaction and partition that are looked for."""
_SLICE_BYTES_MAX = 64 << 20
"""Of file groups that are read for it."""
ROW, DELETE, TOMBSTONE = range(3)
_KIND, _OFFSET = "kind", "offset"
_COLUMNS = [RECORD_KEY, PARTITION_PATH, SLOT]
_log = logging.getLogger(__name__)
_Key = tuple[str, str]
"""Table partition and record key."""


@dataclass(frozen=True, slots=True)
class TombstoneCounts:
    """Tombstones of one participant in one transaction: all that were taken, those of them that met
    no row, and those of which that is not known.
    """

    taken: int = 0
    unmet: int = 0
    not_looked_for: int = 0


NO_TOMBSTONES = TombstoneCounts()


class TombstoneLookout:
    """Counts the tombstones of one participant in one transaction."""

    def __init__(self, context: WriteContext, storage: Storage, bytes_max: int) -> None:
        self._context, self._storage = context, storage
        self._bytes_left = bytes_max
        self._parts: list[pa.Table] = []
        self._taken = 0
        self._is_over = False

    def take(self, prepared: pa.Table, offsets: Offsets, kind: int) -> None:
        """What becomes part of the transaction, in any order; the offsets say which was first."""
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

    def counts(self) -> TombstoneCounts:
        """At the end of the transaction."""
        if not self._taken:
            return NO_TOMBSTONES
        if self._is_over:
            return TombstoneCounts(self._taken, 0, self._taken)
        records = pa.concat_tables(self._parts).sort_by(_OFFSET)
        stones = records.filter(pc.field(_KIND) == TOMBSTONE)
        is_sought: Any = pc.is_in(records.column(RECORD_KEY), stones.column(RECORD_KEY))
        unmet, first = _among_records(records.filter(is_sought))
        known, met = self._keys_with_rows(first)
        return TombstoneCounts(self._taken, unmet + known - met, len(first) - known)

    def _keys_with_rows(self, wanted_keys: Mapping[_Key, int]) -> tuple[int, int]:
        """Of these keys, which have slots, how many were looked for and how many have a row."""
        by_group: dict[tuple[str, int], list[str]] = defaultdict(list)
        for (path, key), slot in wanted_keys.items():
            by_group[path, slot].append(key)
        known = met = 0
        bytes_left = _SLICE_BYTES_MAX
        for (path, slot), keys in by_group.items():
            slice_ = self._context.current_slice(path, slot)
            if slice_ is None:
                known += len(keys)
                continue
            try:
                bytes_left -= self._bytes(slice_)
                held = self._keys(slice_) if bytes_left >= 0 else None
            except (NotFound, MalformedTable) as error:
                # A service may have taken its files away since the transaction began.
                _log.info("tombstones are not looked for: file_id=%s: %s", slice_.file_id, error)
                continue
            if held is not None:
                known += len(keys)
                is_held: Any = pc.is_in(pa.array(keys), held)
                met += int(pc.sum(is_held).as_py() or 0)
        return known, met

    def _bytes(self, slice_: FileSlice) -> int:
        file_infos = [self._storage.info(path) for path in slice_.files]
        return sum(one.size for one in file_infos if one is not None)

    def _keys(self, slice_: FileSlice) -> Any:
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


def _among_records(records: pa.Table) -> tuple[int, dict[_Key, int]]:
    """How many tombstones follow a delete of their key; and the keys of which a tombstone is the
    first that the transaction has, with their slots.
    """
    unmet, first = 0, dict[_Key, int]()
    is_there: dict[_Key, bool] = {}
    columns = [records.column(one).to_pylist() for one in (*_COLUMNS, _KIND)]
    for key, path, slot, kind in zip(*columns, strict=True):
        place = (path, key)
        if kind == TOMBSTONE and place not in is_there:
            first[place] = slot
        unmet += kind == TOMBSTONE and is_there.get(place) is False
        is_there[place] = kind == ROW
    return unmet, first
