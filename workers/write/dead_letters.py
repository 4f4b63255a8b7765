"""Dead-letter output: rows that the table cannot hold go beside it, and the rest is committed.

One Parquet file per write in a directory that the caller names, durable before the commit is
decided, its name beginning with the instant. What a write that was rolled back left there goes with
it; after a crash the instant that is not on the timeline says so.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workers.clock import InstantTime
from workers.errors import BadRows, InvalidInput
from workers.storage.local import LocalStorage

ERROR_COLUMN = "_sluice_error"
ROW_COLUMN = "_sluice_row"
INSTANT_COLUMN = "_sluice_instant"
_BAD_ROWS_MAX = 10_000
"""A batch with more is not a good batch with some bad rows."""


def check_dead_letter_path(location: str, path: str) -> None:
    """Raises InvalidInput for a directory that is not clearly outside the table."""
    given, table = Path(path), Path(location).resolve()
    if not given.is_absolute():
        raise InvalidInput("the dead-letter path is not absolute", path=path)
    where = given.resolve()
    if where.is_relative_to(table) or table.is_relative_to(where):
        raise InvalidInput("the dead-letter path must be outside the table", path=path)


def sifted(
    batch: pa.Table, prepare: Callable[[pa.Table], object]
) -> tuple[pa.Table, dict[int, str]]:
    """The rows that `prepare` takes, and why it refuses each other one, by its position.

    Raises InvalidInput when the batch as such is refused, or too many rows are.
    """
    prepare(batch.slice(0, 0))
    bad: dict[int, str] = {}
    positions = np.arange(batch.num_rows)
    good = batch
    while found := _refused(good, prepare):
        bad |= {int(positions[at]): why for at, why in found.items()}
        if len(bad) > _BAD_ROWS_MAX:
            raise InvalidInput("too many rows for dead-letter output", rows_max=_BAD_ROWS_MAX)
        positions = np.delete(positions, list(found))
        good = batch.take(positions)
    return good, bad


def _refused(batch: pa.Table, prepare: Callable[[pa.Table], object]) -> dict[int, str]:
    """Some of the rows that are refused; empty when none is."""
    try:
        prepare(batch)
    except BadRows as error:
        return dict.fromkeys(error.positions, str(error.message))
    except InvalidInput:
        at = _first_refused(batch, prepare)
        return {at: str(_refusal(batch.slice(at, 1), prepare))}
    return {}


def _first_refused(batch: pa.Table, prepare: Callable[[pa.Table], object]) -> int:
    """By halving: the batch is refused for a value, which is not said to be in this or that row."""
    start, rows = 0, batch.num_rows
    while rows > 1:
        half = rows // 2
        if _refusal(batch.slice(start, half), prepare) is None:
            start, rows = start + half, rows - half
        else:
            rows = half
    return start


def _refusal(batch: pa.Table, prepare: Callable[[pa.Table], object]) -> InvalidInput | None:
    try:
        prepare(batch)
    except InvalidInput as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead-letter files of one instant."""

    path: str
    instant: InstantTime

    def write(self, batch: pa.Table, bad: Mapping[int, str]) -> None:
        """The rows at these positions of `batch`, with the reasons; durable when this returns."""
        positions = sorted(bad)
        rows = batch.take(positions).replace_schema_metadata(None)
        columns: dict[str, pa.Array[Any]] = {
            ERROR_COLUMN: pa.array([bad[at] for at in positions], pa.string()),
            ROW_COLUMN: pa.array(positions, pa.int64()),
            INSTANT_COLUMN: pa.repeat(pa.scalar(self.instant), len(positions)),
        }
        for name, values in columns.items():
            rows = rows.append_column(name, values)
        content = io.BytesIO()
        pq.write_table(rows, content)
        self._storage().put(f"{self.instant}.parquet", content.getvalue())

    def row_count(self) -> int:
        return sum(self._rows_in(path) for path in self._files())

    def delete(self) -> None:
        for path in self._files():
            self._storage().delete(path)

    def _rows_in(self, path: str) -> int:
        with self._storage().open_data(path) as stream:
            return int(pq.ParquetFile(stream).metadata.num_rows)

    def _files(self) -> list[str]:
        files = self._storage().list_files("")
        return [file.path for file in files if file.name.startswith(self.instant)]

    def _storage(self) -> LocalStorage:
        return LocalStorage(self.path)
