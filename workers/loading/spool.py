"""Rows of files as one Parquet file of this machine, for whatever reads nothing else: written while
they are read, so that no more than a batch is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from workers.loading.reader import RowSource


def spool_rows(
    rows: RowSource, file: Path, on_batch: Callable[[RowSource], None] | None = None
) -> None:
    """Write all rows into `file`, which appears when it is whole. Raises as iterating `rows` does;
    `on_batch` is called after each batch.
    """
    beside = file.with_name(f"{file.name}.part")
    try:
        with beside.open("wb") as stream, pq.ParquetWriter(stream, rows.schema) as writer:
            for batch in rows:
                writer.write_table(pa.Table.from_batches([batch], rows.schema))
                if on_batch is not None:
                    on_batch(rows)
        beside.rename(file)
    finally:
        beside.unlink(missing_ok=True)
