"""The standard set S1: seeded rows and rounds of updates, as Parquet files that are never timed.

A million rows of seven columns (about 109 MB in Arrow), or as many as are asked for: key of 13
characters, ordering value, one of four partitions, an amount, a name, a category, 32 hexadecimal
digits. Every file group of a table holds 125,000 rows, two per partition and million rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

PARTITIONS: Final = 4
_ROWS_PER_BUCKET = 500_000
_UPDATES_MAX = 100_000
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("part", pa.string()),
    pa.field("amount", pa.float64()),
    pa.field("name", pa.string()),
    pa.field("cat", pa.string()),
    pa.field("u", pa.string()),
]
SCHEMA: Final = pa.schema(_FIELDS)
_FILES = 8
_NAMES = 200_000
_CATEGORIES = 20
_VERSION = 1
"""Raised when what is generated changes, so that old files are not taken for new ones."""

_Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where the files of one size lie."""

    folder: Path
    rows: int

    @property
    def buckets(self) -> int:
        return max(1, self.rows // _ROWS_PER_BUCKET)

    def initial(self) -> Path:
        """All rows, in several files in order of arrival."""
        return self._written("initial", lambda: rows(np.arange(self.rows), seed=0))

    def updates(self, number: int, count: int | None = None) -> Path:
        """Round `number`: keys drawn uniformly without repetition, all of them newer.

        `count` is 100,000, or a tenth of the rows where those are fewer.
        """
        count = count or min(_UPDATES_MAX, self.rows // 10)
        return self._written(
            f"updates-{count}-{number}", lambda: _updates(self.rows, number, count)
        )

    def _written(self, name: str, make: Any) -> Path:
        """Files appear under their name only when they are whole."""
        folder = self.folder / f"s1-v{_VERSION}-{self.rows}" / name
        if not folder.exists():
            unfinished = folder.with_name(f".{name}")
            unfinished.mkdir(parents=True, exist_ok=True)
            table = make()
            step = -(-table.num_rows // _FILES)
            for part in range(_FILES):
                piece = table.slice(part * step, step)
                pq.write_table(piece, unfinished / f"{part}.parquet", compression="snappy")
            unfinished.rename(folder)
        return folder


def rows(ids: _Ids, *, seed: int) -> pa.Table:
    """Rows of these ids; a later seed gives newer versions of them, partition unchanged."""
    chance = np.random.default_rng([_VERSION, seed])
    count = len(ids)
    names = chance.integers(0, _NAMES, count)
    columns = [
        texts("k", ids, 12),
        pa.array(1_700_000_000_000 + seed * 1_000_000_000 + chance.integers(0, 10**9, count)),
        texts("part-", ids % PARTITIONS, 1),
        pa.array(np.round(chance.gamma(2.0, 50.0, count), 2)),
        texts("name-", names, 6),
        texts("category-", chance.integers(0, _CATEGORIES, count), 2),
        _hexadecimal(chance.bytes(16 * count), count),
    ]
    return pa.table(columns, schema=SCHEMA)


def _updates(total: int, number: int, count: int) -> pa.Table:
    chance = np.random.default_rng([_VERSION, 1, number])
    ids = chance.choice(total, size=count, replace=False)
    return rows(ids, seed=number + 1)


def texts(prefix: str, numbers: _Ids, digits: int) -> pa.Array[Any]:
    """`prefix` and a number of exactly so many digits, without a Python object per row."""
    width = len(prefix) + digits
    matrix = np.empty((len(numbers), width), np.uint8)
    matrix[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    left = numbers.astype(np.int64)
    for place in range(width - 1, len(prefix) - 1, -1):
        matrix[:, place] = ord("0") + left % 10
        left = left // 10
    return _fixed_width(matrix.tobytes(), len(numbers), width)


def _hexadecimal(content: bytes, count: int) -> pa.Array[Any]:
    return _fixed_width(content.hex().encode(), count, 2 * len(content) // max(count, 1))


def _fixed_width(text: bytes, count: int, width: int) -> pa.Array[Any]:
    offsets = (np.arange(count + 1, dtype=np.int64) * width).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)
