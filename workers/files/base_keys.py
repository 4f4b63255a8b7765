"""Exact lookup of record keys in a base file: the key column is read, but only in row groups whose
statistics do not exclude all keys.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import MalformedTable
from workers.files.arrow_streams import OpenParquet, parquet_file
from workers.files.base_file import UNREADABLE
from workers.files.meta_columns import RECORD_KEY
from workers.storage.base import Storage

Texts: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedKeys(Sequence[str]):
    """Distinct record keys, ascending by their UTF-8 bytes."""

    array: Any

    @classmethod
    def of(cls, keys: Texts) -> SortedKeys:
        """Sort record keys, of which some may occur more than once. They are not null."""
        distinct: Any = keys.unique()
        return cls(distinct.take(pc.sort_indices(distinct)))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: Any) -> Any:
        return self.array[at].as_py()

    def span(self, least: str, greatest: str) -> slice:
        """Return the positions of the keys between the two, both inclusive."""
        # Python compares text by code points, which is the order of UTF-8 bytes.
        return slice(bisect.bisect_left(self, least), bisect.bisect_right(self, greatest))

    def find_positions(self, stored: Texts, within: slice) -> Positions:
        """Return the positions of those keys `within` that `stored` has, ascending."""
        mine = self.array.slice(within.start, within.stop - within.start)
        # The smaller side becomes the hash table.
        if len(stored) < len(mine):
            held: Any = pc.is_in(mine, value_set=_single(stored))
            positions: Positions = np.flatnonzero(held.to_numpy(zero_copy_only=False))
        else:
            matches: Any = pc.index_in(_single(stored), value_set=mine).drop_null()
            positions = np.unique(matches.to_numpy())
        return np.asarray(positions + within.start, np.int64)

    @property
    def everything(self) -> slice:
        """Return the span of all keys."""
        return slice(0, len(self.array))


def find_stored_keys(storage: Storage, path: str, keys: SortedKeys) -> Positions:
    """Return the positions of those `keys` that the file has. Raises NotFound, MalformedTable."""
    with storage.open_data(path) as stream:
        try:
            file = parquet_file(stream)
            positions = [np.empty(0, np.int64)]
            for number in range(file.metadata.num_row_groups):
                within = _within(file, number, keys)
                if within.start < within.stop:
                    stored = file.read_row_group(number, columns=[RECORD_KEY], use_threads=False)
                    positions.append(keys.find_positions(stored.column(0), within))
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error
    return np.unique(np.concatenate(positions))


def _within(file: OpenParquet, number: int, keys: SortedKeys) -> slice:
    metadata = file.metadata
    names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    statistics: Any = metadata.row_group(number).column(names.index(RECORD_KEY)).statistics
    if statistics is None or not statistics.has_min_max:
        return keys.everything
    least, greatest = statistics.min, statistics.max
    if not isinstance(least, str) or not isinstance(greatest, str):
        return keys.everything
    return keys.span(least, greatest)


def _single(column: Any) -> Any:
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return joined.cast(pa.string()) if joined.type != pa.string() else joined
