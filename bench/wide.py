"""The set `wide`: what a table that joins streams by itself saves against a join, and its cost.

One key and three streams of ten doubles (`wide_rows`), a million keys. The join's side reads three
plain Parquet tables that already hold the last version of every key; both sides are read by one
Spark session and drained into its noop sink.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.engine import Engine, JobFailed, Measured, engine
from bench.lines import Goal, Line, compared, spread
from bench.peer import hudi_engine
from bench.wide_rows import COLUMNS, STREAMS
from bench.workloads import HUDI, READS, Side, taking_turns

KEYS: Final = 1_000_000
ROUNDS: Final = 5
SHARE: Final = 0.1
PROJECTED: Final = ["a0", "b0", "c0"]
_JOIN: Final = "3-way join in Spark"
_WRITES: Final = 5
_SMALL: Final = (20, 1_000)
_LARGE: Final = (2, 250_000)
_DELTA: Final = 100_000
_ROUNDS: Final = 3
_TABLES: Final = ("ours", "hudi")


def wide(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when the sides hold different rows."""
    yield from wide_reads(folder)
    yield from narrow_write(folder)
    yield from streams_together(folder)
    yield from merge_kernel(folder)
    yield from partial_updates(folder)


def wide_reads(folder: Path, *, keys: int = KEYS) -> Iterator[Line]:
    where = str(folder / "tables")
    with engine("wide", folder) as spark:
        spark.do("prepare", folder=where, keys=keys, rounds=ROUNDS, share=SHARE)
        for columns, what, goals in (
            (None, f"all of {1 + COLUMNS * len(STREAMS)} columns", (3.0, 1.5)),
            (PROJECTED, f"{len(PROJECTED)} columns", (8.0, None)),
        ):
            contents = _agreed(spark.do("contents", folder=where, columns=columns).answer)
            sides: dict[str, Side] = {
                table: _reading(spark, where, table, columns) for table in ("compacted", "logs")
            }
            sides["join"] = _joining(spark, where, columns)
            measured = taking_turns(sides, READS)
            for table, goal in zip(("compacted", "logs"), goals, strict=True):
                state = "compacted" if table == "compacted" else f"{ROUNDS} logs per stream"
                line = compared(
                    f"wide table, {state}, {what}",
                    _JOIN,
                    measured[table],
                    measured["join"],
                    None if goal is None else Goal(goal),
                )
                line.details["rows"] = contents[0]
                yield line


def _reading(spark: Engine, where: str, table: str, columns: list[str] | None) -> Side:
    return lambda _: spark.do("read", folder=where, table=table, columns=columns)


def _joining(spark: Engine, where: str, columns: list[str] | None) -> Side:
    return lambda _: spark.do("join", folder=where, columns=columns)


def _agreed(contents: dict[str, list[str]]) -> list[str]:
    if len({tuple(one) for one in contents.values()}) > 1:
        raise JobFailed(f"the sides hold different rows: {contents}")
    return contents["join"]


def narrow_write(folder: Path, *, keys: int = 100_000) -> Iterator[Line]:
    """Three of a hundred columns of 80 % of the keys, against all of them, as logs both."""
    where, count = str(folder / "hundred"), keys * 8 // 10
    with engine("streams", folder) as writer:
        writer.do("hundred_create", folder=where, keys=keys)

        def draw(number: int) -> None:
            writer.do("hundred_draw", keys=keys, count=count, number=number + 1)

        sides: dict[str, Side] = {
            side: _growing(writer, where, side) for side in ("narrow", "whole")
        }
        measured = taking_turns(sides, _WRITES, prepare=draw)
    peer = "rows of 100 columns"
    yield compared("write of 3 columns", peer, measured["narrow"], measured["whole"], Goal(3))
    ours, theirs = (measured[side][-1].answer for side in ("narrow", "whole"))
    details = {"ours_bytes": ours, "peer_bytes": theirs, "columns": f"{100 / 3:.1f}x"}
    yield Line(
        f"write of 3 columns: bytes (columns {100 / 3:.1f}x)",
        peer,
        None,
        None,
        theirs / ours,
        Goal(15),
        details,
    )


def _growing(writer: Engine, where: str, side: str) -> Side:
    return lambda _: writer.do(f"hundred_{side}", folder=where)


def streams_together(folder: Path) -> Iterator[Line]:
    """Three streams that write at the same time, a process each, against one after the other."""
    with ExitStack() as stack:
        writers = {name: stack.enter_context(engine("streams", folder / name)) for name in STREAMS}
        for (batches, rows), goal in ((_SMALL, Goal(1.5)), (_LARGE, Goal(1.15, is_least=False))):
            measured = _together_and_in_turn(folder, writers, batches, rows)
            yield compared(
                f"3 streams at once, {batches} batches of {rows:,} rows each",
                "the same in sequence",
                measured["together"],
                measured["sequence"],
                goal,
            )


def _together_and_in_turn(
    folder: Path, writers: dict[str, Engine], batches: int, rows: int
) -> dict[str, list[Measured]]:
    first = writers[STREAMS[0]]
    for name, writer in writers.items():
        writer.do("draw", stream=name, batches=batches, rows=rows, keys=KEYS)
    contents: list[Any] = []

    def on_fresh_table(kind: str, run: Callable[[str], Measured]) -> Side:
        def side(_: int) -> Measured:
            table = str(folder / kind)
            first.do("create", table=table, buckets=4)
            measured = run(table)
            contents.append(first.do("content", table=table).answer)
            return measured

        return side

    def together(table: str) -> Measured:
        started = time.perf_counter()
        with ThreadPoolExecutor(len(writers)) as pool:
            jobs = [
                pool.submit(one.do, "write", table=table, stream=name)
                for name, one in writers.items()
            ]
            done = [job.result() for job in jobs]
        return Measured(time.perf_counter() - started, sum(one.cpu_s for one in done), None)

    def in_sequence(table: str) -> Measured:
        done = [one.do("write", table=table, stream=name) for name, one in writers.items()]
        return Measured(sum(one.seconds for one in done), sum(one.cpu_s for one in done), None)

    sides = {
        "together": on_fresh_table("together", together),
        "sequence": on_fresh_table("sequence", in_sequence),
    }
    measured = taking_turns(sides, _WRITES)
    if len({tuple(one) for one in contents}) > 1:
        raise JobFailed(f"the streams left different rows: {contents}")
    return measured


def merge_kernel(folder: Path) -> Iterator[Line]:
    """Versions merged per processor second, in memory: three groups with deletes among them."""
    with engine("kernel", folder) as kernel:
        rows = kernel.do("prepare", keys=KEYS, delta=_DELTA).answer
        measured = taking_turns({"ours": lambda _: kernel.do("merge")}, READS)["ours"]
    cpu_s = statistics.median(one.cpu_s for one in measured)
    seconds = statistics.median(one.seconds for one in measured)
    yield Line(
        f"merge of {_DELTA:,} versions into {KEYS:,} rows, three groups",
        "",
        seconds,
        None,
        rows / cpu_s / 1e6,
        Goal(5, " M rows/s/core"),
        {"ours": spread(measured)},
    )


def partial_updates(folder: Path, *, keys: int = KEYS) -> Iterator[Line]:
    """One stream's columns of a tenth of the keys, in Spark on both sides; then a scan of all.

    Apache Hudi has one ordering column for the row and takes partial rows by `MERGE INTO`; its
    updates are newer than what stands, so that both sides hold the same rows.
    """
    where = str(folder / "partial")
    with ExitStack() as stack:
        ours = stack.enter_context(engine("wide", folder))
        hudi = stack.enter_context(hudi_engine("hudi", folder))
        ours.do("partial_draw", folder=where, keys=keys, rounds=_ROUNDS + 1, share=SHARE)
        engines = dict(zip(_TABLES, (ours, hudi), strict=True))
        for side in engines.values():
            side.do("partial_load", folder=where)
        sides: dict[str, Side] = {name: _updating(one, where) for name, one in engines.items()}
        measured = taking_turns(sides, _ROUNDS)
        scans: dict[str, Side] = {name: _scanning(one, where) for name, one in engines.items()}
        scanned = taking_turns(scans, READS)
    if scanned["ours"][-1].answer != scanned["hudi"][-1].answer:
        raise JobFailed(f"the sides hold different rows: {scanned['ours'][-1].answer}")
    share = f"{int(keys * SHARE):,} of {keys:,} keys"
    line_name = f"partial update of {COLUMNS} of {COLUMNS * len(STREAMS)} columns, {share}"
    yield compared(line_name, HUDI, measured["ours"], measured["hudi"], Goal(3))
    line_name = f"scan of the table after {_ROUNDS + 1} partial updates"
    yield compared(line_name, HUDI, scanned["ours"], scanned["hudi"], Goal(3))


def _updating(side: Engine, where: str) -> Side:
    return lambda number: side.do("partial_update", folder=where, number=number)


def _scanning(side: Engine, where: str) -> Side:
    return lambda _: side.do("partial_content", folder=where)
