"""Work in a process of its own, with limits on memory, time and answer, for code that computes what
a user requests.

The parent calls `run_bounded`. The child takes a job as JSON on its standard input and calls
`take_limits` before it reads anything. It answers with one line of JSON on its standard output, and
an Arrow stream behind it where there are rows.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from workers.clock import SystemClock
from workers.errors import InvalidInput
from workers.files.arrow_streams import arrow_stream
from workers.locations import is_bucket_location
from workers.storage.s3_settings import VARIABLES as BUCKET_VARIABLES

_CLOCK: Final = SystemClock()
_PROJECT_ROOT: Final = Path(__file__).resolve().parents[1]
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL")
_HEAD_BYTES_MAX: Final = 16_384
_PIECE_BYTES: Final = 1 << 16
_OPEN_FILES_MAX: Final = 256
_NO_LIBRARY: Final = 127
"""How the loader ends a process that has no memory left for a library."""
_CANCELLED_WITHIN_S: Final = 0.2
_SPARE_S: Final = 2
"""Between the time at which the parent ends it and the one at which it ends itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """The limits of one process."""

    memory_bytes: int = 1_024 * 1024 * 1024
    """Beyond what the process has before it reads anything."""
    wall_s: float = 20
    cpu_s: int = 20
    """The limit for all its threads together."""
    answer_bytes: int = 8 * 1024 * 1024
    """As Arrow counts them."""
    file_bytes: int = 0
    """The largest file that it may write."""


class LimitHit(InvalidInput):
    """The process ran into one of its limits and was ended; `values["limit"]` is its name."""


class WorkCancelled(InvalidInput):
    """The caller no longer wants the answer, and the process was ended."""


class WorkFailed(InvalidInput):
    """The process could not compute what it was asked for."""


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """What a process answered."""

    head: Mapping[str, Any]
    rows: pa.Table
    """Without columns if it sent only its head."""


@dataclass(frozen=True, slots=True)
class _Run:
    limits: ProcessLimits
    work: str
    ends_at_s: float
    is_cancelled: Callable[[], bool] | None = None

    def wait_s(self) -> float:
        """Return how long to wait for the process. Raises LimitHit, WorkCancelled."""
        if self.is_cancelled is not None and self.is_cancelled():
            raise WorkCancelled(f"{self.work} was cancelled")
        left_s = self.ends_at_s - _CLOCK.monotonic_s()
        if left_s <= 0:
            raise LimitHit(
                f"{self.work} took more than {self.limits.wall_s:g} s and was ended; ask for less "
                "at a time, with a WHERE or over fewer rows",
                limit="time",
                seconds=self.limits.wall_s,
            )
        return left_s if self.is_cancelled is None else min(left_s, _CANCELLED_WITHIN_S)


def run_bounded(
    module: str,
    job: Mapping[str, Any],
    *,
    limits: ProcessLimits,
    work: str,
    environ: Mapping[str, str],
    locations: Sequence[str] = (),
    is_cancelled: Callable[[], bool] | None = None,
) -> ProcessAnswer:
    """Run a module as a process, and return what it answers.

    `work` is what error messages call it. The process gets the secrets of buckets out of `environ`
    only if one of `locations` is in a bucket, and no other secret. It stays in the caller's process
    group, so that it ends with it. `is_cancelled` is asked a few times a second. Raises LimitHit,
    WorkCancelled, WorkFailed.
    """
    job = {
        **job,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "answer_bytes": limits.answer_bytes,
        "file_bytes": limits.file_bytes,
    }
    run = _Run(limits, work, _CLOCK.monotonic_s() + limits.wall_s, is_cancelled)
    process = subprocess.Popen(
        [sys.executable, "-m", "workers.bounded_start", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=_PROJECT_ROOT,
        env=_environment(environ, locations),
        close_fds=True,
    )
    try:
        return _parse(_exchange(process, json.dumps(job).encode(), run), process, run)
    finally:
        _end(process)


def _environment(environ: Mapping[str, str], locations: Sequence[str]) -> dict[str, str]:
    has_bucket = any(is_bucket_location(location) for location in locations)
    names = (*_PASSED_ON, *BUCKET_VARIABLES) if has_bucket else _PASSED_ON
    passed_on = {name: environ[name] for name in names if name in environ}
    return {
        **passed_on,
        "HOME": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_NUM_THREADS": "1",
    }


def _exchange(process: subprocess.Popen[bytes], job: bytes, run: _Run) -> bytes:
    """Send the job, and read the answer within the limits of time and size."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(job)
        process.stdin.close()
    except BrokenPipeError:
        return b""  # It ended before it read; its exit code has the reason.
    # The columns' names and types, and what Arrow fills up, come on top.
    limits = run.limits
    answer_max = 2 * limits.answer_bytes + (4 << 20)
    answer = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(run.wait_s()):
                continue
            piece = os.read(process.stdout.fileno(), _PIECE_BYTES)
            if not piece:
                return bytes(answer)
            answer += piece
            if len(answer) > answer_max:
                raise LimitHit(
                    "the answer is too large; ask for fewer rows or columns",
                    limit="answer_bytes",
                    bytes=limits.answer_bytes,
                )


def _parse(answer: bytes, process: subprocess.Popen[bytes], run: _Run) -> ProcessAnswer:
    head_text, newline, stream = answer.partition(b"\n")
    if not newline or len(head_text) > _HEAD_BYTES_MAX:
        raise _death(process.wait(), run)
    head: dict[str, Any] = json.loads(head_text)
    match head.get("failed"):
        case "memory":
            raise _memory(run)
        case "statement":
            raise WorkFailed(f"{run.work} cannot be computed", why=head["why"])
        case "size":
            raise LimitHit(
                f"{run.work} answers with more than {head['most']} {head['unit']}; ask for less "
                "at a time, with a WHERE",
                limit=head["unit"],
                most=head["most"],
            )
        case _:
            pass
    if not stream:
        return ProcessAnswer(head, pa.table({}))
    with arrow_stream(stream) as reader:
        return ProcessAnswer(head, reader.read_all())


def _death(code: int, run: _Run) -> LimitHit | WorkFailed:
    """Build the error for a process that ended without an answer."""
    if -code in (signal.SIGXCPU, signal.SIGKILL):
        return LimitHit(
            f"{run.work} took more than {run.limits.cpu_s} s of processor time and was ended; ask "
            "for less at a time, with a WHERE or over fewer rows",
            limit="cpu",
            seconds=run.limits.cpu_s,
        )
    if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS) or code == _NO_LIBRARY:
        return _memory(run)
    return WorkFailed(f"the process that computed {run.work} ended", code=code)


def _memory(run: _Run) -> LimitHit:
    megabytes = run.limits.memory_bytes >> 20
    return LimitHit(
        f"{run.work} needs more than {megabytes} MB of memory and was ended; ask for fewer "
        "columns, filter before joining and sorting, or aggregate",
        limit="memory",
        megabytes=megabytes,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            stream.close()


@dataclass(frozen=True, slots=True)
class CutRows:
    """The rows that fit into an answer."""

    rows: pa.Table
    cut_by: str
    """`rows`, `bytes`; empty for a whole answer."""


def take_limits(job: Mapping[str, Any]) -> None:
    """Apply the limits of the job for the rest of this process's life."""
    memory_bytes = _read_mapped_bytes() + int(job["memory_bytes"])
    cpu_s, file_bytes = int(job["cpu_s"]), int(job["file_bytes"])
    for kind, soft, hard in (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES_MAX, _OPEN_FILES_MAX),
    ):
        _, inherited = resource.getrlimit(kind)
        most = hard if inherited == resource.RLIM_INFINITY else min(hard, inherited)
        resource.setrlimit(kind, (min(soft, most), most))
    signal.alarm(int(job["wall_s"]) + _SPARE_S)


def cut_rows(reader: pa.RecordBatchReader, *, rows_max: int, bytes_max: int) -> CutRows:
    """Return the first rows of a reader, and read only what they need."""
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


def write_file(
    job: Mapping[str, Any], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Write the rows to the Parquet file of the job, under the names of `schema`, and answer with
    their number, or that they exceed `rows_max` or `answer_bytes` of the job.
    """
    rows = size = 0
    with pq.ParquetWriter(Path(job["file"]), schema, compression="zstd") as writer:
        for batch in batches:
            rows += batch.num_rows
            size += batch.nbytes
            for amount, most, unit in (
                (rows, job["rows_max"], "rows"),
                (size, job["answer_bytes"], "bytes"),
            ):
                if amount > most:
                    say({"failed": "size", "most": most, "unit": unit})
                    return
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    say({"rows": rows})


def failure(error: Exception) -> dict[str, Any]:
    """Return the answer for an error: that memory ran out, or its first line."""
    first, *_ = str(error).splitlines() or [""]
    is_memory = "bad_alloc" in first or "llocation failure" in first or "malloc" in first
    return {"failed": "memory" if is_memory else "statement", "why": first[:500]}


def say(head: Mapping[str, Any], rows: pa.Table | None = None) -> None:
    """Send the answer to the process that started this one."""
    with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as stream:
        stream.write(json.dumps(head).encode() + b"\n")
        if rows is not None:
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows)


def peak_bytes() -> int:
    """Return the maximum memory of this process so far, in bytes, without that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "VmHWM":
            return int(size.split()[0]) * 1024
    raise AssertionError("the kernel does not report it")


def _read_mapped_bytes() -> int:
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
