"""Non-blocking Arrow writers, without Spark: what 64 of them lose against 8, on the same cores."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.drivers.crowd import SCHEMA
from bench.engine import ROOT, JobFailed
from bench.lines import Goal, Line
from workers.clock import parse_instant
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.table.schema_history import read_instant
from workers.timeline.metadata import LOCK_KEY

MANY: Final = 64
FEW: Final = 8
ROWS: Final = 1_000
BUCKETS: Final = 8
SECONDS: Final = 120
_PROCESSES = 4
_STOP_MAX_S = 120


@dataclass(frozen=True, slots=True)
class Crowd:
    """What writers were told, and what the table then held."""

    seconds: float
    """From the first request to the last completion."""
    commits: int
    lock_wait_p99_ms: float

    @property
    def rows_per_second(self) -> float:
        return self.commits * ROWS / self.seconds


def many_writers(folder: Path, *, seconds: float = SECONDS) -> Iterator[Line]:
    """Raises JobFailed for a conflict, and for anything that is lost."""
    few = crowd(folder, FEW, seconds=seconds)
    many = crowd(folder, MANY, seconds=seconds)
    yield Line(
        f"{MANY} non-blocking Arrow writers, throughput",
        f"{FEW} of them",
        ROWS / many.rows_per_second,
        ROWS / few.rows_per_second,
        100 * many.rows_per_second / few.rows_per_second,
        Goal(80, " %"),
        {
            "seconds": seconds,
            "commits": many.commits,
            "commits_of_few": few.commits,
            "lock_wait_p99_ms": many.lock_wait_p99_ms,
            "lock_wait_p99_ms_of_few": few.lock_wait_p99_ms,
        },
    )


def crowd(folder: Path, writers: int, *, seconds: float, rows: int = ROWS) -> Crowd:
    """Let so many write to a fresh table, and look at it afterwards. Raises JobFailed."""
    location = folder / f"crowd-{writers}"
    shutil.rmtree(location, ignore_errors=True)
    create_table(
        location,
        name="crowd",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": str(BUCKETS)},
    )
    told = _told(location, writers, seconds, rows)
    table = open_table(location)
    _check(table, told, rows)
    waits = _lock_waits_ms(table)
    writes = table.timeline()[1:]  # Without the table's creation.
    # Processes take a while to start, and a commit that began before the time is up ends after it.
    first, last = writes[0].requested_at, max(one.completed_at or "" for one in writes)
    took_s = (parse_instant(last) - parse_instant(first)) / 1000
    found = Crowd(took_s, sum(len(one["commits"]) for one in told), float(np.percentile(waits, 99)))
    shutil.rmtree(location, ignore_errors=True)
    return found


def _told(location: Path, writers: int, seconds: float, rows: int) -> list[dict[str, Any]]:
    shares = [list(range(at, writers, _PROCESSES)) for at in range(min(_PROCESSES, writers))]
    jobs = [
        {"location": str(location), "writers": share, "seconds": seconds, "rows": rows}
        for share in shares
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.drivers.crowd", json.dumps(job)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    told: list[dict[str, Any]] = []
    for process in processes:
        out, _ = process.communicate(timeout=seconds + _STOP_MAX_S)
        if process.returncode:
            raise JobFailed(f"a process of the crowd ended with {process.returncode}")
        told += json.loads(out.strip().splitlines()[-1])
    return told


def _check(table: LakehouseTable, told: list[dict[str, Any]], rows: int) -> None:
    """No conflict; every commit that was told is there, each key once, with its last version."""
    if failures := [failure for one in told for failure in one["failures"]]:
        raise JobFailed(f"{len(failures)} writes failed, the first: {failures[0]}")
    known = {one.requested_at for one in table.timeline()}
    if lost := [at for one in told for at in one["commits"] if at not in known]:
        raise JobFailed(f"{len(lost)} commits are lost, the first: {lost[0]}")
    found = table.read(columns=["id", "ts"]).to_pydict()
    expected = {
        f"w{one['writer']}-{n}": one["last_ts"]
        for one in told
        if one["last_ts"]
        for n in range(rows)
    }
    if len(found["id"]) != len(expected) or dict(zip(*found.values(), strict=True)) != expected:
        raise JobFailed("the rows are not those that were committed")


def _lock_waits_ms(table: LakehouseTable) -> list[int]:
    """Of each commit's second lock, which is the contended one."""
    writes = table.table.timeline().completed_writes()
    texts = [read_instant(table.table, one).extra_metadata.get(LOCK_KEY) for one in writes]
    return [int(json.loads(text)["waited_ms"]) for text in texts if text]
