"""`python -m bench`: run the workloads, print the table, write `bench/latest.json`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import (
    cluster,
    controlplane,
    crowd,
    early_conflict,
    files,
    fleet,
    indexes,
    install,
    markers,
    memory,
    native,
    native_writes,
    requests,
    restating,
    sink,
    sink_memory,
    stores,
    timeline,
    unblocked,
    wide,
    workloads,
)
from bench.dataset import Dataset
from bench.engine import ROOT, JobFailed, engine
from bench.lines import Line, as_text
from bench.support.hudi_environment import HudiMissing, hudi_environment
from bench.workloads import Bench

RESULT: Final = Path(__file__).parent / "latest.json"
_LOAD_MAX = 0.5
_ROWS = 1_000_000
_READS = 9

Workload = Callable[[Bench], Iterator[Line]]
ALL: Final[dict[str, Workload]] = {
    "bulk_insert": workloads.bulk_insert,
    "upsert_cow": workloads.upsert_cow,
    "read": workloads.read_without_logs,
    "upsert_mor": workloads.upsert_mor,
    "upsert_one": workloads.upsert_one,
    "delete": workloads.delete_bytes,
    "read_logs": workloads.read_with_logs,
    "compaction": workloads.compaction,
    "memory": memory.compaction_memory,
    "early_conflict": early_conflict.early_conflict,
}
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "upsert_cow": ("bulk_insert",),
    "upsert_one": ("bulk_insert", "upsert_mor"),
    "delete": ("bulk_insert", "upsert_mor"),
    "compaction": ("read_logs",),
}
"""Workloads whose tables others continue with."""
Alone = Callable[[Path], Iterator[Line]]
STANDALONE: Final[dict[str, Alone]] = {
    "markers": markers.marker_server,
    "crowd": crowd.many_writers,
    "unblocked": unblocked.after_a_death,
    "restating": restating.restating,
    "wide": wide.wide,
    "sink": sink.sink,
    "sink_memory": sink_memory.sink_memory,
    "indexes": indexes.indexes,
    "install": install.install,
    "cluster": cluster.cluster,
    "stores": stores.stores,
    "timeline": timeline.timeline,
    "files": files.files,
    "fleet": fleet.fleet,
    "requests": requests.requests,
    "pages": requests.pages,
    "data_page": requests.data_page,
    "timeline_windows": requests.timeline_windows,
    "controlplane": controlplane.controlplane,
    "native": native.native,
    "native_writes": native_writes.native_writes,
}
"""Without tables and engines; each starts what it needs."""
LARGE: Final = ("read", "read_logs")
"""What has a goal at ten million rows, and runs there as well unless a size is asked for."""


def main(arguments: list[str]) -> int:
    options = _parsed(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = logging.getLogger("bench")
    if (load := os.getloadavg()[0]) > _LOAD_MAX:
        log.warning("load average is %.1f: ratios of a busy machine are no results", load)
    only = options.only.split(",") if options.only else [*ALL, *STANDALONE]
    if not options.only:
        only.remove("pages")  # Part of `requests`.
    lines = _run_alone(options, [name for name in only if name in STANDALONE])
    only = [name for name in only if name in ALL]
    if only:
        lines += _run(options, options.rows or _ROWS, only)
    if options.rows is None and (large := [name for name in LARGE if name in only]):
        lines += _run(options, workloads.LARGE_ROWS, large, with_peers=False)
    sys.stdout.write(as_text(lines) + "\n")
    result = Path(options.out)
    measured = [line.to_json() for line in lines]
    if options.only and result.exists():
        measured = _replaced(json.loads(result.read_text()), measured)
    result.write_text(json.dumps(measured, indent=1) + "\n")
    return 1 if any(line.ratio is None for line in lines) else 0


def _replaced(former: list[dict[str, Any]], measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The former lines, with those that were measured again in their places, new ones last."""
    again = {(line["name"], line["peer"]): line for line in measured}
    kept = [again.pop((line["name"], line["peer"]), line) for line in former]
    return [*kept, *again.values()]


def add_needed(names: list[str]) -> list[str]:
    """Return the workloads with those whose tables they need, each once, in the order of `ALL`."""
    needed = {other for name in names for other in NEEDS.get(name, ())}
    return [name for name in ALL if name in needed or name in names]


def _run_alone(options: argparse.Namespace, names: list[str]) -> list[Line]:
    log = logging.getLogger("bench")
    folder = Path(options.folder)
    crowd_rounds: Alone = partial(
        crowd.many_writers, seconds=options.seconds, rounds=options.rounds
    )
    steady: Alone = partial(sink_memory.sink_memory, minutes=options.minutes)
    in_process: Alone = partial(native.native, rows=options.rows or _ROWS, repeats=_READS)
    writes: Alone = partial(native_writes.native_writes, rows=options.rows or _ROWS)
    data_page: Alone = partial(requests.data_page, rows=options.rows or requests.DATA_ROWS)
    on_cluster: Alone = partial(cluster.cluster, rows=options.rows or cluster.ROWS)
    own = {
        "cluster": on_cluster,
        "data_page": data_page,
        "crowd": crowd_rounds,
        "sink_memory": steady,
        "native": in_process,
        "native_writes": writes,
    }
    standalone = {**STANDALONE, **own}
    lines: list[Line] = []
    for name in names:
        log.info("%s, load average %.1f", name, os.getloadavg()[0])
        try:
            for line in standalone[name](folder / name):
                log.info("  %s", json.dumps({**line.to_json(), "details": line.details}))
                lines.append(line)
        except JobFailed as failed:
            log.error("  %s", failed)
            lines.append(Line(name, "", None, None, None))
    return lines


def _run(
    options: argparse.Namespace, rows: int, names: list[str], *, with_peers: bool = True
) -> list[Line]:
    log = logging.getLogger("bench")
    folder = Path(options.folder)
    tables = folder / f"tables-{rows}"
    shutil.rmtree(tables, ignore_errors=True)
    lines: list[Line] = []
    with ExitStack() as stack:
        ours = stack.enter_context(engine("sluice", tables))
        hudi = delta = None
        if with_peers and not options.alone:
            delta = stack.enter_context(engine("delta", tables))
            environment = hudi_environment()
            if isinstance(environment, HudiMissing):
                log.warning("without Apache Hudi: %s", environment.reason)
            else:
                python, jar = str(environment.python), str(environment.jar)
                hudi = stack.enter_context(engine("hudi", tables, python=python, arguments=(jar,)))
        data = Dataset(folder / "data", rows)
        bench = Bench(data, tables, ours, hudi, delta, options.repeats)
        for name in add_needed(names):
            log.info("%s, %s rows, load average %.1f", name, rows, os.getloadavg()[0])
            try:
                for line in ALL[name](bench):
                    log.info("  %s", json.dumps({**line.to_json(), "details": line.details}))
                    lines.append(line.of_rows(rows))
            except JobFailed as failed:
                log.error("  %s", failed)
                lines.append(Line(name, "", None, None, None))
    shutil.rmtree(tables, ignore_errors=True)
    return lines


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, help="so many, instead of a million and ten million")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds of each write")
    parser.add_argument(
        "--seconds", type=float, default=crowd.SECONDS, help="crowd: how long a round lasts"
    )
    parser.add_argument("--rounds", type=int, default=1, help="crowd: few and many in turns")
    parser.add_argument(
        "--minutes", type=int, default=sink_memory.MINUTES, help="sink_memory: how long"
    )
    names = ",".join([*ALL, *STANDALONE])
    parser.add_argument("--only", help=f"some of {names}; what they need runs first")
    parser.add_argument("--alone", action="store_true", help="without Apache Hudi and delta-rs")
    parser.add_argument(
        "--folder", default=str(ROOT / "var" / "bench"), help="data and tables, some GB"
    )
    parser.add_argument("--out", default=str(RESULT), help="where the result goes as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
