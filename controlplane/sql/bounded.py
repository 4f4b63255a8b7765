"""What every process that reads rows for a person does of itself: it takes its own limits, cuts its
answer, and says what came of it.

It takes a job as JSON on its standard input, and gives one line of JSON on its standard output,
with an Arrow stream behind it where there are rows. Before it reads a table it takes limits on
memory, processor time, files and open files, and an alarm that ends it should nobody else.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

_OPEN_FILES_MAX: Final = 256
_SPARE_S: Final = 2
"""Between the time at which the parent ends it and the one at which it ends itself."""


@dataclass(frozen=True, slots=True)
class CutRows:
    """As much of some rows as an answer may hold."""

    rows: pa.Table
    cut_by: str
    """`rows`, `bytes`; empty for a whole answer."""


def take_limits(job: Mapping[str, Any]) -> None:
    """Those of the job, for the rest of this process's life."""
    memory_bytes = _mapped_bytes() + int(job["memory_bytes"])
    cpu_s = int(job["cpu_s"])
    for kind, soft, hard in (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES_MAX, _OPEN_FILES_MAX),
    ):
        _, inherited = resource.getrlimit(kind)
        most = hard if inherited == resource.RLIM_INFINITY else min(hard, inherited)
        resource.setrlimit(kind, (min(soft, most), most))
    signal.alarm(int(job["wall_s"]) + _SPARE_S)


def cut_rows(reader: pa.RecordBatchReader, *, rows_max: int, bytes_max: int) -> CutRows:
    """The first rows of a reader, which is asked for no more than they take."""
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    cut_by = ""
    for batch in reader:
        if rows + batch.num_rows > rows_max:
            batch, cut_by = batch.slice(0, rows_max - rows), "rows"
        if size + batch.nbytes > bytes_max:
            batch, cut_by = _fitting(batch, bytes_max - size), "bytes"
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if cut_by:
            break
    return CutRows(pa.Table.from_batches(batches, reader.schema), cut_by)


def failure(error: Exception) -> dict[str, Any]:
    """What is said of an error: that memory ran out, or its first line."""
    first, *_ = str(error).splitlines() or [""]
    is_memory = "bad_alloc" in first or "llocation failure" in first or "malloc" in first
    return {"failed": "memory" if is_memory else "statement", "why": first[:500]}


def say(head: Mapping[str, Any], rows: pa.Table | None = None) -> None:
    """The answer, to whoever started this process."""
    with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as stream:
        stream.write(json.dumps(head).encode() + b"\n")
        if rows is not None:
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows)


def peak_bytes() -> int:
    """The most memory that this process has had so far, without that of whoever started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "VmHWM":
            return int(size.split()[0]) * 1024
    raise AssertionError("the kernel does not say")


def _mapped_bytes() -> int:
    pages, *_ = Path("/proc/self/statm").read_text().split()
    return int(pages) * resource.getpagesize()


def _fitting(batch: pa.RecordBatch, bytes_max: int) -> pa.RecordBatch:
    fitting, over = 0, batch.num_rows
    while over - fitting > 1:
        middle = (fitting + over) // 2
        if batch.slice(0, middle).nbytes <= bytes_max:
            fitting = middle
        else:
            over = middle
    return batch.slice(0, fitting)
