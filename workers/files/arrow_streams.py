"""Parquet and Arrow files, read from a Python stream by the thread that asks and no other.

Arrow reads ahead on threads of its own unless it is told not to. Where the stream is a Python one,
such a thread calls the interpreter, and one that does so while the process ends aborts it
("terminate called without an active exception": with small row groups 17 to 24 of 300 short
processes did). Whatever opens such a file does it here; ruff refuses Arrow's own names elsewhere.
Even the footer of an Arrow file is read so, whatever the options say: only streams are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

OpenParquet = pq.ParquetFile


def parquet_file(stream: Any) -> OpenParquet:
    """Whoever reads from it has to say `use_threads=False`."""
    return pq.ParquetFile(stream, pre_buffer=False)


def parquet_schema(stream: Any) -> pa.Schema:
    """The file's columns as Arrow sees them. Only the footer is read."""
    return parquet_file(stream).schema_arrow


def arrow_stream(stream: Any, included_fields: Sequence[int] = ()) -> pa.RecordBatchStreamReader:
    """Reads bytes too; only the columns at these positions, where some are given."""
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(included_fields))
    return pa.ipc.open_stream(stream, options=options)
