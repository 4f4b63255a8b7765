"""The set `indexes`: what looking keys up costs, where a bucket does not tell their file group."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.engine import Engine, JobFailed, Measured, engine
from bench.lines import Goal, Line, spread
from bench.workloads import READS, Side, taking_turns

KEYS: Final = 1_000_000
_FILES: Final = 10
_RATE: Final = Goal(1, " M keys/s/core")


def indexes(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a filter forgot a key, or denies hardly any."""
    folder.mkdir(parents=True, exist_ok=True)
    yield from bloom_filters(folder)


def bloom_filters(folder: Path) -> Iterator[Line]:
    """At the default options, per processor second."""
    with engine("filters", folder) as filters:
        filters.do("prepare", keys=KEYS)
        sides = {job: _doing(filters, job) for job in ("make", "ask_held", "ask_absent")}
        measured = taking_turns(sides, READS)
    if measured["ask_held"][-1].answer != KEYS:
        raise JobFailed(f"a filter forgot keys: {measured['ask_held'][-1].answer:,} of {KEYS:,}")
    if (left := measured["ask_absent"][-1].answer) > KEYS * _FILES // 1_000:
        raise JobFailed(f"filters leave {left:,} keys that are not there")
    yield _line(f"bloom filter of {KEYS:,} keys, made", KEYS, measured["make"])
    yield _line(f"{KEYS:,} keys asked for, each held", KEYS, measured["ask_held"])
    asked = f"{KEYS:,} keys asked for, absent from {_FILES} files"
    yield _line(asked, KEYS * _FILES, measured["ask_absent"])


def _doing(filters: Engine, job: str) -> Side:
    return lambda _: filters.do(job)


def _line(name: str, keys: int, measured: list[Measured]) -> Line:
    cpu_s = statistics.median(one.cpu_s for one in measured)
    seconds = statistics.median(one.seconds for one in measured)
    return Line(name, "", seconds, None, keys / cpu_s / 1e6, _RATE, {"ours": spread(measured)})
