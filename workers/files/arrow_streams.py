"""Parquet and Arrow files, read from a Python stream by the calling thread only.

Arrow reads ahead on threads of its own by default. Where the stream is a Python one, such a thread
calls the interpreter, and a thread that does so while the process ends aborts it ("terminate called
without an active exception": with small row groups 17 to 24 of 300 short processes did). Code that
opens such a file does it here; ruff rejects Arrow's own names elsewhere. Even the footer of an
Arrow file is read so, despite the options: only streams are read.
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
    """Open a Parquet file; the caller must read with `use_threads=False`. A `footer` that is known
    is not read again. `options` are more arguments of `pyarrow.parquet.ParquetFile`.
    """
    return pq.ParquetFile(stream, metadata=footer, pre_buffer=False, **options)


def native(stream: Any) -> Any:
    """Return the same file for Arrow to read without the interpreter, if `stream` is a file of the
    system; otherwise the stream itself. Concurrent reading threads would wait for the interpreter's
    lock.

    The caller closes it. No path is resolved again: the code that opened the stream rejected links.
    """
    if type(stream) is not io.BufferedReader or not _DESCRIPTORS.exists():
        return stream
    return pa.OSFile(str(_DESCRIPTORS / str(stream.fileno())), "r")


def parquet_schema(stream: Any) -> pa.Schema:
    """Return the file's columns as Arrow types. Only the footer is read."""
    return parquet_file(stream).schema_arrow


def arrow_stream(stream: Any, included_fields: Sequence[int] = ()) -> pa.RecordBatchStreamReader:
    """Open an Arrow stream or its bytes; read only the columns at these positions, if there are
    any.
    """
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(included_fields))
    return pa.ipc.open_stream(stream, options=options)
