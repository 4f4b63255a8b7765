"""One statement, or one read of rows, in a process of its own: started, bounded from outside, and
ended with its group whatever happens.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from django.conf import settings

from controlplane.sql.errors import SqlFailed, SqlLimitHit
from controlplane.sql.limits import SqlLimits
from workers.files.arrow_streams import arrow_stream
from workers.locations import is_bucket_location
from workers.storage.s3_settings import VARIABLES as BUCKET_VARIABLES

_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL")
_HEAD_BYTES_MAX: Final = 16_384
_PIECE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToRead:
    """What the process is told of one table."""

    relation: str
    location: str
    columns: tuple[str, ...]
    masked: tuple[str, ...]
    times_read: int


@dataclass(frozen=True, slots=True)
class Rows:
    """An answer, masked where it is."""

    rows: pa.Table
    cut_by: str
    """`rows`, `bytes`; empty for a whole answer."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a process said of its job."""

    head: Mapping[str, Any]
    rows: pa.Table
    """Without columns where it said nothing but its head."""


@dataclass(frozen=True, slots=True)
class _Run:
    limits: SqlLimits
    work: str
    ends_at_s: float


def run_statement(
    text: str, tables: Sequence[TableToRead], *, rows_max: int, limits: SqlLimits
) -> Rows:
    """Compute a statement that was checked, in DuckDB's spelling. Raises SqlLimitHit, which says
    which limit it ran into, SqlFailed for what the engine says of it.
    """
    job = {
        "text": text,
        "tables": [asdict(table) for table in tables],
        "rows_max": rows_max,
    }
    said = run_job(
        "controlplane.sql.child",
        job,
        locations=[table.location for table in tables],
        limits=limits,
        work="the statement",
    )
    if said.head["cut_by"] == "bytes" and not said.rows.num_rows:
        raise SqlLimitHit(
            "one row of the answer is larger than an answer may be; ask for fewer columns, or for "
            "a part of the text",
            limit="answer_bytes",
            bytes=limits.answer_bytes,
        )
    return Rows(said.rows, said.head["cut_by"])


def run_job(
    module: str,
    job: Mapping[str, Any],
    *,
    locations: Sequence[str],
    limits: SqlLimits,
    work: str,
) -> Said:
    """What a module that is a process says of its job, whose limits are added to it. `work`: what
    sentences call it. Raises SqlLimitHit, SqlFailed.
    """
    job = {
        **job,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "answer_bytes": limits.answer_bytes,
    }
    run = _Run(limits, work, time.monotonic() + limits.wall_s)
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=settings.BASE_DIR,
        env=_environment(os.environ, locations),
        start_new_session=True,
        close_fds=True,
    )
    try:
        said = _exchange(process, json.dumps(job).encode(), run)
        return _heard(said, process, run)
    finally:
        _end(process)


def _environment(environ: Mapping[str, str], locations: Sequence[str]) -> dict[str, str]:
    """No secret, but for those that open a bucket where one of the tables is in one."""
    names = list(_PASSED_ON)
    if any(is_bucket_location(location) for location in locations):
        names += BUCKET_VARIABLES
    passed_on = {name: environ[name] for name in names if name in environ}
    return {
        **passed_on,
        "HOME": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_NUM_THREADS": "1",
    }


def _exchange(process: subprocess.Popen[bytes], job: bytes, run: _Run) -> bytes:
    """The job goes in, and all that comes out is read, while there is time and not beyond what an
    answer may be.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(job)
        process.stdin.close()
    except BrokenPipeError:
        return b""  # It ended before it read; its exit code says why.
    # The columns' names and types, and what Arrow fills up, come on top.
    limits = run.limits
    said_max = 2 * limits.answer_bytes + (4 << 20)
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left_s = run.ends_at_s - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                raise SqlLimitHit(
                    f"{run.work} took more than {limits.wall_s:g} s and was ended; ask for less "
                    "at a time, with a WHERE or over fewer rows",
                    limit="time",
                    seconds=limits.wall_s,
                )
            piece = os.read(process.stdout.fileno(), _PIECE_BYTES)
            if not piece:
                return bytes(said)
            said += piece
            if len(said) > said_max:
                raise SqlLimitHit(
                    "the answer is too large; ask for fewer rows or columns",
                    limit="answer_bytes",
                    bytes=limits.answer_bytes,
                )


def _heard(said: bytes, process: subprocess.Popen[bytes], run: _Run) -> Said:
    head_text, newline, stream = said.partition(b"\n")
    if not newline or len(head_text) > _HEAD_BYTES_MAX:
        raise _ended(process.wait(), run)
    head: dict[str, Any] = json.loads(head_text)
    if head.get("failed") == "memory":
        raise _memory(run)
    if head.get("failed") == "statement":
        raise SqlFailed(f"{run.work} cannot be computed", why=head["why"])
    if not stream:
        return Said(head, pa.table({}))
    with arrow_stream(stream) as reader:
        return Said(head, reader.read_all())


def _ended(code: int, run: _Run) -> SqlLimitHit | SqlFailed:
    """What a process died of that could not say so itself."""
    if -code in (signal.SIGXCPU, signal.SIGKILL):
        return SqlLimitHit(
            f"{run.work} took more than {run.limits.cpu_s} s of processor time and was ended; ask "
            "for less at a time, with a WHERE or over fewer rows",
            limit="cpu",
            seconds=run.limits.cpu_s,
        )
    if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS):
        return _memory(run)
    return SqlFailed(f"the process that computed {run.work} ended", code=code)


def _memory(run: _Run) -> SqlLimitHit:
    megabytes = run.limits.memory_bytes >> 20
    return SqlLimitHit(
        f"{run.work} needs more than {megabytes} MB of memory and was ended; ask for fewer "
        "columns, filter before joining and sorting, or aggregate",
        limit="memory",
        megabytes=megabytes,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With its group; a process that nobody waited for keeps its number."""
    with suppress(ProcessLookupError):  # It has ended, and left nobody.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            stream.close()
