"""Reads without Spark against what a Python user would pick instead: pyarrow's dataset and DuckDB's
Parquet scan over the same files, delta-rs, hudi-rs. All in one process, in turns.

Ratios are of processor time: on a machine that does other work the wall says little.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import deltalake
import duckdb
import hudi
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from bench.engine import JobFailed, driver_environment
from bench.lines import Goal, Line
from workers import create_table, open_table
from workers.lakehouse import LakehouseTable
from workers.read.verdicts import Verdicts

COLUMNS: Final = ["id", "region", "ts", "a", "b", "c", "d"]
_LOGS: Final = 5
_LOG_SHARE: Final = 50
BUCKETS: Final = {"hoodie.bucket.index.num.buckets": "2"}
DIRECT: Final = {"hoodie.write.markers.type": "direct"}
Read = Callable[[], object]


def native(folder: Path, *, rows: int = 1_000_000, repeats: int = 9) -> Iterator[Line]:
    """Tables are made anew: without logs, clustered by a column, with five logs, compacted."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tables = _Tables(folder, rows)
    for line in _lines(tables, repeats):
        yield line.of_rows(rows)


def _lines(tables: _Tables, repeats: int) -> Iterator[Line]:
    yield from _without_logs(tables, repeats)
    yield from _filtered(tables, repeats)
    yield from _with_logs(tables, repeats)
    yield from _in_batches(tables)


def _without_logs(tables: _Tables, repeats: int) -> Iterator[Line]:
    table, files = tables.plain, files_of(tables.plain)
    delta = deltalake.DeltaTable(str(tables.folder / "delta"))
    theirs = hudi.HudiTableBuilder.from_base_uri(table.location).build()
    for name, columns, bound in (("all columns", COLUMNS, 1.05), ("one column", ["a"], 1.1)):
        times = race(
            {
                "ours": partial(table.read, columns=columns),
                "pyarrow": partial(_dataset, files, columns),
                "delta": partial(delta.to_pyarrow_table, columns=columns),
                "duckdb": partial(_duckdb, files, columns),
            },
            repeats,
        )
        what = f"native read, {name}"
        yield times.line(what, "pyarrow's dataset, same files", Goal(bound, is_least=False))
        yield times.line(what, "delta-rs", None, "delta")
        yield times.line(what, "DuckDB, same files", None, "duckdb")
    times = race({"ours": table.read, "hudi": theirs.read}, repeats)
    yield times.line("native read, all columns", "hudi-rs", Goal(2), "hudi")


def _filtered(tables: _Tables, repeats: int) -> Iterator[Line]:
    table, files = tables.clustered, files_of(tables.clustered)
    dataset_filter: Any = ds.field("a") < 0.01
    times = race(
        {
            "ours": lambda: table.read(where="a < 0.01"),
            "pyarrow": lambda: ds.dataset(files).to_table(filter=dataset_filter),
            "duckdb": lambda: _duckdb(files, COLUMNS, "WHERE a < 0.01"),
        },
        repeats,
    )
    what = "native read, filter 1 %, clustered"
    yield times.line(what, "DuckDB, same files", Goal(1.1, is_least=False), "duckdb")
    yield times.line(what, "pyarrow's dataset, same files", None)
    key = [("id", "=", _key(5))]
    times = race(
        {
            "ours": lambda: tables.plain.read(where=[*key, ("region", "=", "b")]),
            "wide": lambda: tables.plain.read(where=key),
        },
        repeats,
    )
    yield times.limit("native look-up of a key, partition named", 5)
    yield times.limit("native look-up of a key", 15, "wide")


def _with_logs(tables: _Tables, repeats: int) -> Iterator[Line]:
    table, files = tables.logs, files_of(tables.compacted)
    theirs = hudi.HudiTableBuilder.from_base_uri(table.location).build()

    def cold(columns: list[str]) -> pa.Table:
        remembered = table.table.storage.cache.of_kind(Verdicts)
        remembered.forget()
        rows: pa.Table = table.read(columns=columns)
        return rows

    for name, columns, bounds in (("all", COLUMNS, (2.1, 1.8)), ("one", ["a"], (None, 3.0))):
        times = race(
            {
                "ours": partial(cold, columns),
                "warm": partial(table.read, columns=columns),
                "pyarrow": partial(_dataset, files, columns),
            },
            repeats,
        )
        what, peer = f"native read of 5 logs, {name}", "pyarrow's dataset, compacted"
        goals = [None if one is None else Goal(one, is_least=False) for one in bounds]
        yield times.line(f"{what}, cold", peer, goals[0])
        yield times.line(f"{what}, again", peer, goals[1], ours="warm")
    times = race({"ours": lambda: cold(COLUMNS), "hudi": theirs.read}, repeats)
    yield times.line("native read of 5 logs, all, cold", "hudi-rs", Goal(3), "hudi")


def _in_batches(tables: _Tables) -> Iterator[Line]:
    """In a process of its own, which says what it held at most and when the first batch came."""
    program = [sys.executable, "-m", "bench.drivers.native_batches", tables.logs.location]
    done = subprocess.run(
        program, env=driver_environment(), stdout=subprocess.PIPE, check=False, text=True
    )
    if done.returncode:
        raise JobFailed("reading in batches failed")
    said = json.loads(done.stdout)
    limit = Goal(400, " MB", is_least=False)
    name = "native read of 5 logs in batches"
    yield Line(f"{name}, peak memory", "(a limit)", said["seconds"], None, said["peak_mb"], limit)
    share = Goal(5, " %", is_least=False)
    first = 100 * said["first_seconds"] / said["seconds"]
    yield Line(f"{name}, first batch", "(a limit)", said["first_seconds"], None, first, share)


class _Tables:
    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self._chance = np.random.default_rng(1)
        base = rows_of(np.arange(rows), 1, self._chance)
        deltalake.write_deltalake(str(folder / "delta"), base, partition_by=["region"])
        self.plain = self._made("plain", base, "COPY_ON_WRITE")
        shutil.copytree(folder / "plain", folder / "clustered")
        self.clustered = open_table(folder / "clustered")
        self.clustered.cluster(["a"])
        self.logs = self._made("logs", base, "MERGE_ON_READ")
        for number in range(_LOGS):
            ids = self._chance.choice(rows, rows // _LOG_SHARE, replace=False)
            self.logs.write(rows_of(ids, number + 2, self._chance), options=DIRECT)
        shutil.copytree(folder / "logs", folder / "compacted")
        self.compacted = open_table(folder / "compacted")
        self.compacted.compact()

    def _made(self, name: str, base: pa.Table, kind: str) -> LakehouseTable:
        table = create_table(
            self.folder / name, name=name, schema=base.schema, record_key=["id"],
            partition_by=["region"], ordering=["ts"], table_type=kind, options=BUCKETS,
        )  # fmt: skip
        table.write(base, operation="bulk_insert", options=DIRECT)
        return table


def rows_of(ids: Any, ts: int, chance: np.random.Generator) -> pa.Table:
    """Rows of these ids, in four regions; what else they hold is by chance."""
    count = len(ids)
    return pa.table(
        {
            "id": pa.array([_key(number) for number in ids]),
            "region": pa.array(np.array(["a", "b", "c", "d"])[ids % 4]),
            "ts": pa.array(np.full(count, ts, dtype="int64")),
            "a": pa.array(chance.random(count)),
            "b": pa.array(chance.integers(0, 1000, count)),
            "c": pa.array([f"text {number % 977}" for number in ids]),
            "d": pa.array(chance.random(count)),
        }
    )


def _key(number: int) -> str:
    return f"key_{number:09d}"


def files_of(table: LakehouseTable) -> list[str]:
    """Its base files, for those who read them without the timeline."""
    return [f"{table.location}/{one.base_file}" for one in table.file_groups()]


def _duckdb(files: list[str], columns: list[str], where: str = "") -> pa.Table:
    query = f"SELECT {','.join(columns)} FROM read_parquet({files}) {where}"  # noqa: S608
    relation: Any = duckdb.sql(query)
    rows: pa.Table = relation.to_arrow_table()
    return rows


def _dataset(files: list[str], columns: list[str]) -> pa.Table:
    return ds.dataset(files).to_table(columns=columns)


class Times:
    """Medians of what each took: wall and processor seconds."""

    def __init__(self, taken: dict[str, list[tuple[float, float]]]) -> None:
        self.wall = {
            name: statistics.median(one[0] for one in all_) for name, all_ in taken.items()
        }
        self.processor = {
            name: statistics.median(one[1] for one in all_) for name, all_ in taken.items()
        }

    def line(
        self, name: str, peer: str, goal: Goal | None, other: str = "pyarrow", ours: str = "ours"
    ) -> Line:
        """Ours against another's, by processor time."""
        mine, theirs = self.processor[ours], self.processor[other]
        is_least = goal is None or goal.is_least
        ratio = theirs / mine if is_least else mine / theirs
        details = {"wall_s": [round(self.wall[one], 4) for one in (ours, other)]}
        return Line(name, peer, mine, theirs, ratio, goal, details)

    def limit(self, name: str, most_ms: float, ours: str = "ours") -> Line:
        """Ours against a limit."""
        goal = Goal(most_ms, " ms", is_least=False)
        mine = self.processor[ours]
        return Line(name, "(a limit)", mine, None, 1000 * mine, goal)


def race(reads: dict[str, Read], repeats: int) -> Times:
    """Each in its turn, one round not counted."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in reads}
    for number in range(repeats + 1):
        for name, read in reads.items():
            wall, processor = time.perf_counter(), time.process_time()
            rows = read()
            seconds = time.perf_counter() - wall, time.process_time() - processor
            del rows
            if number:
                taken[name].append(seconds)
    return Times(taken)
