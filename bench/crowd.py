"""Non-blocking Arrow writers, without Spark: what 64 of them lose against 8, on the same cores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
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
    lock_waits_ms: list[int]
    """Of each commit's second lock, which is the contended one."""
    load: float
    """Load average of one minute at the end."""

    @property
    def rows_per_second(self) -> float:
        return self.commits * ROWS / self.seconds


def many_writers(folder: Path, *, seconds: float = SECONDS, rounds: int = 1) -> Iterator[Line]:
    """The median of so many rounds in turns, since others may use the machine as well.

    Raises JobFailed for a conflict, and for anything that is lost.
    """
    turns = [
        (crowd(folder, FEW, seconds=seconds), crowd(folder, MANY, seconds=seconds))
        for _ in range(rounds)
    ]
    few, many = [one for one, _ in turns], [one for _, one in turns]
    ratios = [100 * b.rows_per_second / a.rows_per_second for a, b in turns]
    yield Line(
        f"{MANY} non-blocking Arrow writers, throughput",
        f"{FEW} of them",
        ROWS / median(one.rows_per_second for one in many),
        ROWS / median(one.rows_per_second for one in few),
        median(ratios),
        Goal(80, " %"),
        {
            "seconds": seconds,
            "ratios": [round(one, 1) for one in ratios],
            "commits": [one.commits for one in many],
            "commits_of_few": [one.commits for one in few],
            **_waits(many, ""),
            **_waits(few, "_of_few"),
            "load": [round(one.load, 1) for turn in turns for one in turn],
        },
    )


def _waits(rounds: list[Crowd], suffix: str) -> dict[str, float]:
    waits = [wait for one in rounds for wait in one.lock_waits_ms]
    return {
        f"lock_wait_p{part}_ms{suffix}": round(float(np.percentile(waits, part)), 1)
        for part in (50, 99)
    }


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
    writings = _crowd_run(location, writers, seconds, rows)
    table = open_table(location)
    _check(table, writings, rows)
    writes = table.timeline()[1:]  # Without the table's creation.
    # Processes take a while to start, and a commit that began before the time is up ends after it.
    first, last = writes[0].requested_at, max(one.completed_at or "" for one in writes)
    took_s = (parse_instant(last) - parse_instant(first)) / 1000
    commits = sum(len(one["commits"]) for one in writings)
    measured = Crowd(took_s, commits, _lock_waits_ms(table), os.getloadavg()[0])
    shutil.rmtree(location, ignore_errors=True)
    return measured


def _crowd_run(location: Path, writers: int, seconds: float, rows: int) -> list[dict[str, Any]]:
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
    writings: list[dict[str, Any]] = []
    for process in processes:
        out, _ = process.communicate(timeout=seconds + _STOP_MAX_S)
        if process.returncode:
            raise JobFailed(f"a process of the crowd ended with {process.returncode}")
        writings += json.loads(out.strip().splitlines()[-1])
    return writings


def _check(table: LakehouseTable, writings: list[dict[str, Any]], rows: int) -> None:
    """No conflict; every commit that was told is there, each key once, with its last version."""
    if failures := [failure for one in writings for failure in one["failures"]]:
        raise JobFailed(f"{len(failures)} writes failed, the first: {failures[0]}")
    known = {one.requested_at for one in table.timeline()}
    if lost := [at for one in writings for at in one["commits"] if at not in known]:
        raise JobFailed(f"{len(lost)} commits are lost, the first: {lost[0]}")
    columns = table.read(columns=["id", "ts"]).to_pydict()
    expected = {
        f"w{one['writer']}-{n}": one["last_ts"]
        for one in writings
        if one["last_ts"]
        for n in range(rows)
    }
    if len(columns["id"]) != len(expected) or dict(zip(*columns.values(), strict=True)) != expected:
        raise JobFailed("the rows are not those that were committed")


def _lock_waits_ms(table: LakehouseTable) -> list[int]:
    writes = table.table.timeline().list_completed_writes()
    texts = [read_instant(table.table, one).extra_metadata.get(LOCK_KEY) for one in writes]
    return [int(json.loads(text)["waited_ms"]) for text in texts if text]
