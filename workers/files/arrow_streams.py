"""Parquet and Arrow files, read from a Python stream by the thread that asks and no other.

Arrow reads ahead on threads of its own unless it is told not to. Where the stream is a Python one,
such a thread calls the interpreter, and one that does so while the process ends aborts it
("terminate called without an active exception": with small row groups 17 to 24 of 300 short
processes did). Whatever opens such a file does it here; ruff refuses Arrow's own names elsewhere.
Even the footer of an Arrow file is read so, whatever the options say: only streams are read.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

OpenParquet = pq.ParquetFile
_DESCRIPTORS: Final = Path("/proc/self/fd")
"""A file of the system by its open descriptor, whatever its name leads to by now."""


def parquet_file(stream: Any, footer: pq.FileMetaData | None = None, **options: Any) -> OpenParquet:
    """Whoever reads from it has to say `use_threads=False`. A `footer` that is known is not read
    again. `options` are more arguments of `pyarrow.parquet.ParquetFile`.
    """
    return pq.ParquetFile(stream, metadata=footer, pre_buffer=False, **options)


def native(stream: Any) -> Any:
    """The same file for Arrow to read without the interpreter, where `stream` is one of the system;
    otherwise the stream itself. Threads that read beside each other would wait for its lock.

    The caller closes it. Nothing is looked up by name: who opened the stream refused links.
    """
    if type(stream) is not io.BufferedReader or not _DESCRIPTORS.exists():
        return stream
    return pa.OSFile(str(_DESCRIPTORS / str(stream.fileno())), "r")


def parquet_schema(stream: Any) -> pa.Schema:
    """The file's columns as Arrow sees them. Only the footer is read."""
    return parquet_file(stream).schema_arrow


def arrow_stream(stream: Any, included_fields: Sequence[int] = ()) -> pa.RecordBatchStreamReader:
    """Reads bytes too; only the columns at these positions, where some are given."""
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(included_fields))
    return pa.ipc.open_stream(stream, options=options)
