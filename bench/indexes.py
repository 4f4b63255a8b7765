"""The set `indexes`: what looking keys up costs, where a bucket does not tell their file group."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.dataset import Dataset
from bench.engine import Engine, JobFailed, Measured, engine
from bench.lines import Goal, Line, compared, spread
from bench.peer import hudi_engine
from bench.workloads import CODECS, READS, Side, taking_turns

KEYS: Final = 1_000_000
_FILES: Final = 10
_RATE: Final = Goal(1, " M keys/s/core")
_ROUNDS: Final = 5
_BLOOM: Final[dict[str, Any]] = {"kind": "cow", "buckets": 0, "index": "BLOOM"}


def indexes(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a filter forgot a key, or denies hardly any, and when tables differ."""
    folder.mkdir(parents=True, exist_ok=True)
    yield from bloom_filters(folder)
    yield from bloom_upserts(folder)


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
    name = f"{KEYS:,} keys asked for, absent from {_FILES} files"
    yield _line(name, KEYS * _FILES, measured["ask_absent"])


def _doing(filters: Engine, job: str) -> Side:
    return lambda _: filters.do(job)


def _line(name: str, keys: int, measured: list[Measured]) -> Line:
    cpu_s = statistics.median(one.cpu_s for one in measured)
    seconds = statistics.median(one.seconds for one in measured)
    return Line(name, "", seconds, None, keys / cpu_s / 1e6, _RATE, {"ours": spread(measured)})


def bloom_upserts(folder: Path) -> Iterator[Line]:
    """The upserts of `upsert_cow`, where both engines find the rows by filters."""
    data, tables = Dataset(folder.parent / "data", KEYS), folder / "tables"
    shutil.rmtree(tables, ignore_errors=True)
    with ExitStack() as stack:
        ours = stack.enter_context(engine("sluice", tables))
        hudi = stack.enter_context(hudi_engine("hudi", tables))
        sides = {"ours": _upserting(ours, data, str(tables / "ours"))}
        for codec in CODECS:
            sides[codec] = _upserting(hudi, data, str(tables / codec), codec=codec)
        measured = taking_turns(sides, _ROUNDS)
        content = {
            name: (ours if name == "ours" else hudi).do("content", table=str(tables / name)).answer
            for name in measured
        }
    if len(content) < len(sides) or len({tuple(one) for one in content.values()}) > 1:
        raise JobFailed(f"engines hold different rows: {content}")
    for codec, peer in CODECS.items():
        name = "upsert 100 k, copy-on-write, found by bloom filters"
        yield compared(name, peer, measured["ours"], measured[codec], Goal(4))
    shutil.rmtree(tables, ignore_errors=True)


def _upserting(side: Engine, data: Dataset, table: str, **more: str) -> Side:
    """Of a table that is loaded at once. Every side gets the same rounds."""
    side.do("load", table=table, rows=str(data.initial()), **_BLOOM, **more)
    given = _BLOOM | more if more else {}
    return lambda number: side.do("upsert", table=table, rows=str(data.updates(number)), **given)
