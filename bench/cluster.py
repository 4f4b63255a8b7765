"""The set `cluster`: the engine on its way to a cluster, and writes on two workers against one.

The cluster is standalone, on this machine. Its workers have one core each, a processor of their own
and a Python without this checkout. The driver uses the same processors, so only the stages' tasks
are compared: from the start of a stage's first task to its end, as Spark reports them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.dataset import Dataset
from bench.engine import Engine, JobFailed, engine
from bench.lines import Goal, Line
from bench.support.standalone import (
    StandaloneCluster,
    count_fetches,
    make_bare_python,
    standalone_cluster,
)

ROWS: Final = 10_000_000
WORKERS: Final = 2
_WARM_ROWS: Final = 100_000
_LIMIT: Final = "(a limit)"
_ALONE: Final = "one worker"
_MEGABYTE: Final = 1_000_000
_BYTES: Final = Goal(2, " MB", is_least=False)
_SECONDS: Final = Goal(5, " s", is_least=False)
_ONCE: Final = Goal(1, " per executor", is_least=False)
_FASTER: Final = Goal(1.6)
_OPERATIONS: Final = ("bulk insert", "upsert")

Times = dict[str, dict[str, Any]]
"""Operation to what the driver measured."""


def cluster(folder: Path, *, rows: int = ROWS) -> Iterator[Line]:
    """Write `rows` rows, and newer versions of all of them. Raises JobFailed if a worker has other
    processors than its own, or if the tables differ.
    """
    processors = sorted(os.sched_getaffinity(0))[:WORKERS]
    if len(processors) < WORKERS:
        raise JobFailed(f"{WORKERS} workers need a processor each, found {processors}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = make_bare_python(folder / "python")
    data = Dataset(folder.parent / "data", rows)
    warm = Dataset(folder.parent / "data", _WARM_ROWS)
    times: dict[int, Times] = {}
    contents: dict[int, list[int]] = {}
    for workers in (WORKERS, 1):
        place = folder / f"workers-{workers}"
        with (
            standalone_cluster(
                place / "spark", python, workers=workers, processors=processors[:workers]
            ) as running,
            engine("cluster", place, arguments=(running.master, str(python))) as driver,
        ):
            _check_workers(driver, processors[:workers])
            shipped = _ship(driver, place)
            _write(driver, place / "warm", warm)
            times[workers] = _write(driver, place / "table", data)
            contents[workers] = driver.do("content", table=str(place / "table")).answer
            if workers == WORKERS:
                yield from _describe_shipping(shipped, running)
        shutil.rmtree(place / "table")
    if contents[WORKERS] != contents[1] or contents[1][0] != rows:
        raise JobFailed(f"the tables hold different rows: {contents}")
    for operation in _OPERATIONS:
        yield _compare(operation, times[WORKERS][operation], times[1][operation]).of_rows(rows)


def _check_workers(driver: Engine, processors: list[int]) -> None:
    """Start the Python of each executor, and check that it has one processor."""
    registered = driver.do("register").answer
    if registered != len(processors):
        raise JobFailed(f"expected {len(processors)} executors, got {registered}")
    answer = driver.do("processors", workers=len(processors)).answer
    if sorted(answer) != [[number] for number in processors]:
        raise JobFailed(f"expected a worker on each of {processors}, got {answer}")


def _ship(driver: Engine, place: Path) -> dict[str, Any]:
    measured = driver.do("ship", location=str(place / "table"))
    return {**measured.answer, "s": measured.seconds}


def _describe_shipping(shipped: dict[str, Any], running: StandaloneCluster) -> Iterator[Line]:
    seconds = shipped["s"]
    details = {"call_s": shipped["call_s"]}
    name = f"engine to {WORKERS} executors without a checkout"
    size = shipped["bytes"] / _MEGABYTE
    yield Line(f"{name}: size", _LIMIT, None, None, size, _BYTES, {"bytes": shipped["bytes"]})
    yield Line(f"{name}: time", _LIMIT, seconds, None, seconds, _SECONDS, details)
    fetches = count_fetches(running, "sluice-engine-")
    if fetches < WORKERS:
        raise JobFailed(f"the logs of {WORKERS} executors have {fetches} fetches of the engine")
    often = fetches / WORKERS
    yield Line(f"{name}: times shipped for four writes", _LIMIT, None, None, often, _ONCE)


def _write(driver: Engine, table: Path, data: Dataset) -> Times:
    where = str(table)
    initial, newer = str(data.initial()), str(data.updates(0, data.rows))
    inserted = driver.do("bulk_insert", table=where, rows=initial, buckets=data.buckets)
    upserted = driver.do("upsert", table=where, rows=newer)
    return dict(zip(_OPERATIONS, (inserted.answer, upserted.answer), strict=True))


def _compare(operation: str, ours: dict[str, Any], alone: dict[str, Any]) -> Line:
    ours_s, alone_s = ours["stage_s"], alone["stage_s"]
    details = {"two": ours["stages"], "one": alone["stages"]}
    name = f"{operation} on {WORKERS} workers of one core: stages"
    return Line(name, _ALONE, ours_s, alone_s, alone_s / ours_s, _FASTER, details)
