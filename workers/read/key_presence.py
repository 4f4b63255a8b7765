"""Which of some record keys a file slice of a table with column groups holds: as rows, or as
deletes that it remembers.

Base files are asked for the key column alone, and of that only the row groups whose statistics
leave a key open; logs for their keys. Slices are merged only for keys that were ever deleted there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.base_file import read_footer
from workers.files.base_keys import Positions, SortedKeys, find_stored_keys
from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_file import TOMBSTONES_KEY, read_tombstones
from workers.merge.group_state import GONE, ROW_GONE, SET, bits, is_alive
from workers.merge.versions import ROW, Mask, kinds
from workers.options.table_options import TableConfig
from workers.read.file_slice import merged_state_parts
from workers.read.log_versions import LogReader
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

_NOBODY: Positions = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Presence:
    """Positions among the keys that were asked for."""

    alive: Positions
    deleted: Positions
    """Those of which a delete is remembered, and no row is left."""


@dataclass(frozen=True, slots=True)
class SliceKeys:
    """Looks keys up in the slices of a table. Raises NotFound, MalformedTable, UnsupportedTable."""

    storage: Storage
    config: TableConfig
    schema: TableSchema

    def presence(self, slice_: FileSlice, keys: SortedKeys) -> Presence:
        """Which of `keys` the slice has, and which it remembers as deleted."""
        held, dead = self._in_base(slice_, keys)
        logs = LogReader(self.storage, self.config, self.schema, {RECORD_KEY}).versions(slice_)
        if logs is not None:
            logs = logs.filter(pc.is_in(logs.column(RECORD_KEY), value_set=keys.array))
        if logs is None or logs.num_rows == 0:
            return Presence(held, dead)
        said = _positions(logs, keys)
        contested = np.union1d(_positions(logs.filter(pa.array(_deletes(logs))), keys), dead)
        written = logs.filter(pa.array(bits(logs, SET) != 0))
        alive = np.setdiff1d(np.union1d(held, _positions(written, keys)), contested)
        if not len(np.intersect1d(contested, said)):
            return Presence(alive, dead)
        contested_keys = SortedKeys(keys.array.take(contested))
        states = self.states(slice_, contested_keys, columns=[RECORD_KEY])
        lives = is_alive(states)
        return Presence(
            np.union1d(alive, _positions(states.filter(pa.array(lives)), keys)),
            _positions(states.filter(pa.array(~lives)), keys),
        )

    def states(
        self, slice_: FileSlice, keys: SortedKeys, columns: list[str] | None = None
    ) -> pa.Table:
        """What the slice knows of these keys, one state each."""
        parts = merged_state_parts(self.storage, self.config, self.schema, slice_, columns=columns)
        return pa.concat_tables(
            part.filter(pc.is_in(part.column(RECORD_KEY), value_set=keys.array)) for part in parts
        )

    def _in_base(self, slice_: FileSlice, keys: SortedKeys) -> tuple[Positions, Positions]:
        """Positions of keys that the base file has as rows, and of those that it remembers as
        deleted.
        """
        path = slice_.base_file
        if path is None:
            return _NOBODY, _NOBODY
        held = find_stored_keys(self.storage, path, keys)
        text = read_footer(self.storage, path).get(TOMBSTONES_KEY)
        if text is None:
            return held, _NOBODY
        return held, _positions(read_tombstones(text, path=path), keys)


def _deletes(versions: pa.Table) -> Mask:
    """Which versions may take away what others say."""
    mask: Mask = (kinds(versions) != ROW) | (bits(versions, GONE) != 0)
    if ROW_GONE in versions.column_names:
        mask |= np.asarray(versions.column(ROW_GONE).is_valid().to_numpy())
    return mask


def _positions(rows: pa.Table, keys: SortedKeys) -> Positions:
    """Positions of the keys that `rows` have, ascending."""
    row_keys: Any = rows.column(RECORD_KEY)
    return keys.find_positions(row_keys, keys.everything)
