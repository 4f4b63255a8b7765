"""Dead-letter output: rows that the table cannot hold are written next to it, and the rest is
committed.

The caller names a directory. Each attempt with such rows writes one Parquet file into it, durable
before the commit is decided, whose name begins with the instant. The driver keeps the files of
successful attempts and names them in the commit's metadata; the others are deleted. The files of a
write that was rolled back are deleted with it. After a crash their instant is not on the timeline.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.files.names import write_token
from workers.locations import is_bucket_location, lies_under, resolve_location
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.write.status import DeadLetterFile, TaskIds

ERROR_COLUMN = "_sluice_error"
ROW_COLUMN = "_sluice_row"
INSTANT_COLUMN = "_sluice_instant"
BAD_ROWS_MAX = 10_000
"""A batch with more is not a good batch with some bad rows."""


def check_dead_letter_path(location: str, path: str) -> None:
    """Check the directory for dead letters. Raises InvalidInput for a directory that is not clearly
    outside the table.
    """
    if not is_bucket_location(path) and not Path(path).is_absolute():
        raise InvalidInput("the dead-letter path is not absolute", path=path)
    where, table = resolve_location(path), resolve_location(location)
    if where == table or lies_under(where, table) or lies_under(table, where):
        raise InvalidInput("the dead-letter path must be outside the table", path=path)


def check_bad_rows(rows: int) -> None:
    """Check that there are not too many bad rows for one write. Raises InvalidInput for more than
    `BAD_ROWS_MAX` rows.
    """
    if rows > BAD_ROWS_MAX:
        raise InvalidInput("too many rows for dead-letter output", rows_max=BAD_ROWS_MAX)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead-letter files of one instant; on executors and on the driver."""

    path: str
    instant: InstantTime

    def write(self, letters: pa.Table, task: TaskIds, part: int = 0) -> DeadLetterFile:
        """Durable when this returns, under a name that no other attempt picks."""
        instants = pa.repeat(pa.scalar(self.instant), letters.num_rows)
        content = io.BytesIO()
        pq.write_table(letters.append_column(INSTANT_COLUMN, instants), content)
        token = write_token(task.partition, task.stage, task.attempt)
        name = f"{self.instant}_{token}_{part}.parquet"
        self._storage().put(name, content.getvalue())
        return DeadLetterFile(name, letters.num_rows)

    def keep_only(self, referenced: Iterable[DeadLetterFile]) -> None:
        """Delete what other attempts wrote: retried, speculative and failed ones."""
        names = {file.name for file in referenced}
        for file in self._storage().list_files(""):
            if file.name.startswith(self.instant) and file.name not in names:
                self._storage().delete(file.path)

    def delete(self, doomed: DeadLetterFile) -> None:
        """Take one file away again. Raises StorageFailed."""
        self._storage().delete(doomed.name)

    def _storage(self) -> Storage:
        return open_storage(self.path)


def build_dead_letters(batch: pa.Table, bad: Mapping[int, str], *, is_numbered: bool) -> pa.Table:
    """Return the rows at these positions of `batch` with the reasons. Their numbers are null if the
    batch is only a part of the caller's rows.
    """
    positions = sorted(bad)
    columns: dict[str, pa.Array[Any]] = {
        ERROR_COLUMN: pa.array([bad[at] for at in positions], pa.string()),
        ROW_COLUMN: pa.array(positions if is_numbered else [None] * len(positions), pa.int64()),
    }
    rows = batch.take(positions).replace_schema_metadata(None)
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows
