"""Writes without Spark against delta-rs, and on every core against one. All in one process, in
turns, each on a table of its own that nobody wrote to before.

Ratios are of wall seconds, because the second core is what it is about: on a machine that does
other work they say nothing. Processor seconds stand beside them.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import deltalake
import numpy as np

from bench.lines import Goal, Line
from bench.native import BUCKETS, DIRECT, rows_of
from workers import create_table, open_table
from workers.lakehouse import LakehouseTable
from workers.threads import usable_cores

_SHARE: Final = 10
"""Of its rows a table gets one of so many anew."""
_COW: Final = "COPY_ON_WRITE"
_MOR: Final = "MERGE_ON_READ"
_ALONE: Final = {"sluice.write.threads": "1"}
Written = tuple[float, float]
"""Wall and processor seconds."""


def native_writes(folder: Path, *, rows: int = 1_000_000, repeats: int = 5) -> Iterator[Line]:
    """Tables are made anew for each write; making them is not timed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for line in _lines(_Writes(folder, rows), repeats):
        yield line.of_rows(rows)


def _lines(writes: _Writes, repeats: int) -> Iterator[Line]:
    delta = "delta-rs"
    bulk = _raced(repeats, {
        "ours": writes.bulk_insert, "alone": partial(writes.bulk_insert, _ALONE),
        "delta": writes.delta_insert,
    })  # fmt: skip
    yield bulk.line("native bulk insert", delta, Goal(0.6), "delta")
    yield bulk.on_cores("native bulk insert", Goal(1.5))
    upsert = _raced(repeats, {
        "ours": partial(writes.upsert, _COW), "alone": partial(writes.upsert, _COW, _ALONE),
        "mor": partial(writes.upsert, _MOR), "delta": writes.delta_upsert,
    })  # fmt: skip
    goal = Goal(1.1 if writes.rows < 10_000_000 else 1.5)
    yield upsert.line("native upsert, copy-on-write", delta, goal, "delta")
    yield upsert.on_cores("native upsert, copy-on-write", Goal(1.7))
    yield upsert.line("native upsert, merge-on-read", delta, Goal(5), "delta", "mor")
    compaction = _raced(repeats, {
        "ours": partial(writes.compaction, "0"), "alone": partial(writes.compaction, "1"),
    })  # fmt: skip
    yield compaction.on_cores("native compaction", Goal(1.6))


@dataclass(frozen=True, slots=True)
class _Times:
    taken: dict[str, list[Written]]

    def wall_s(self, name: str) -> float:
        return statistics.median(wall for wall, _ in self.taken[name])

    def line(self, what: str, peer: str, goal: Goal, theirs: str, ours: str = "ours") -> Line:
        mine, others = self.wall_s(ours), self.wall_s(theirs)
        processor_s = [
            round(statistics.median(used for _, used in self.taken[name]), 4)
            for name in (ours, theirs)
        ]
        details = {"processor_s": processor_s}
        return Line(what, peer, mine, others, others / mine, goal, details)

    def on_cores(self, what: str, goal: Goal) -> Line:
        return self.line(what, f"one thread of {usable_cores()}", goal, "alone")


def _raced(repeats: int, writes: dict[str, Callable[[], Written]]) -> _Times:
    """Each in its turn, one round not counted."""
    taken: dict[str, list[Written]] = {name: [] for name in writes}
    for number in range(repeats + 1):
        for name, write in writes.items():
            seconds = write()
            if number:
                taken[name].append(seconds)
    return _Times(taken)


class _Writes:
    """Writes that take a table in the state they start from, and are timed alone."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self._folder = folder
        chance = np.random.default_rng(1)
        self._base = rows_of(np.arange(rows), 1, chance)
        self._newer = rows_of(chance.choice(rows, rows // _SHARE, replace=False), 2, chance)
        self._number = 0
        for kind in (_COW, _MOR):
            self._made(kind, kind).write(self._base, operation="bulk_insert", options=DIRECT)
        shutil.copytree(folder / _MOR, folder / "logs")
        open_table(folder / "logs").write(self._newer, options=DIRECT)
        deltalake.write_deltalake(str(folder / "delta"), self._base, partition_by=["region"])

    def bulk_insert(self, options: dict[str, str] | None = None) -> Written:
        table = self._made(self._fresh(), _COW)
        insert = partial(table.write, self._base, operation="bulk_insert")
        return self._timed(lambda: insert(options=DIRECT | (options or {})))

    def delta_insert(self) -> Written:
        place = str(self._folder / self._fresh())
        write = deltalake.write_deltalake
        return self._timed(lambda: write(place, self._base, partition_by=["region"]))

    def upsert(self, kind: str, options: dict[str, str] | None = None) -> Written:
        table = open_table(self._copied(kind))
        return self._timed(lambda: table.write(self._newer, options=DIRECT | (options or {})))

    def delta_upsert(self) -> Written:
        table = deltalake.DeltaTable(str(self._copied("delta")))
        merging = table.merge(
            self._newer,
            predicate="t.region = s.region and t.id = s.id",
            source_alias="s",
            target_alias="t",
        )
        newer = merging.when_matched_update_all(predicate="s.ts >= t.ts")
        return self._timed(newer.when_not_matched_insert_all().execute)

    def compaction(self, threads: str) -> Written:
        table = open_table(self._copied("logs"))
        return self._timed(lambda: table.compact(parameters={"sluice.compaction.threads": threads}))

    def _made(self, name: str, kind: str) -> LakehouseTable:
        return create_table(
            self._folder / name, name="native", schema=self._base.schema, record_key=["id"],
            partition_by=["region"], ordering=["ts"], table_type=kind, options=BUCKETS,
        )  # fmt: skip

    def _copied(self, name: str) -> Path:
        return shutil.copytree(self._folder / name, self._folder / self._fresh())

    def _fresh(self) -> str:
        """The table before it is not needed any more."""
        shutil.rmtree(self._folder / f"written{self._number}", ignore_errors=True)
        self._number += 1
        return f"written{self._number}"

    def _timed(self, write: Callable[[], object]) -> Written:
        wall, processor = time.perf_counter(), time.process_time()
        write()
        return time.perf_counter() - wall, time.process_time() - processor
