"""The set `fleet`: a node's mirror over 308 small tables, with SQLite and with PostgreSQL.

What runs is what `make up` runs of the mirror: beat, its worker with two processes, Redis, and the
database. Tables of four kinds (ours; versions 6, 8 and 9 of Apache Hudi) are registered at once;
then one of them is written to while all others are still, and again while 800 new tables wait for
their first mirror; then nothing happens at all.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.engine import ROOT, Engine, JobFailed, driver_environment, engine
from bench.lines import Goal, Line
from bench.support.fleet import FLEET, make_fleet
from bench.support.postgres import postgres_cluster, programs
from bench.support.redis_server import redis_server
from controlplane.node.places import places_from
from controlplane.node.processes import WORKERS, beat_command, worker_command
from workers.clock import SystemClock

_PATIENCE_S: Final = 300.0
_COMMITS: Final = 20
_PAUSE_S: Final = 0.7
_IDLE_S: Final = 120.0
"""As long as it takes until every table was read as a whole once."""
_SETTLE_S: Final = 10.0
_STOP_S: Final = 20
_LIMIT: Final = "(a limit)"
_SYNCED: Final = Goal(30, " s", is_least=False)
_SEEN: Final = Goal(5, " s", is_least=False)
_SEEN_BEFORE_NEW: Final = Goal(3, " s", is_least=False)
_NEW: Final = 800
_COMMITS_BESIDE_NEW: Final = 5
_DISCARDED: Final = Goal(0, " tasks", is_least=False)
_IDLE: Final = Goal(10, " %", is_least=False)
_DISCARDS = "Discarding revoked task"


@dataclass(frozen=True, slots=True)
class Node:
    """The processes that were started, and what the worker said."""

    processes: Mapping[str, psutil.Process]
    worker_log: Path

    def cpu_s(self) -> dict[str, float]:
        return {name: _cpu_s(process) for name, process in self.processes.items()}

    def discarded(self) -> int:
        return self.worker_log.read_text(errors="replace").count(_DISCARDS)


def fleet(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a table stays unsynced or a commit unseen."""
    for name in ("SQLite", "PostgreSQL"):
        if name == "PostgreSQL" and programs() is None:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        with ExitStack() as stack:
            database = str(folder / "home" / "db.sqlite3")
            if name == "PostgreSQL":
                database = stack.enter_context(postgres_cluster())
            yield from _measured(folder, name, database, stack)
    shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, name: str, database: str, stack: ExitStack) -> Iterator[Line]:
    root = folder / "tables"
    make_fleet(root)
    redis = stack.enter_context(redis_server("of-the-bench"))
    environment = environment_of(folder, database, redis.address)
    node = stack.enter_context(running_node(folder, environment))
    outside = stack.enter_context(engine("fleet", folder, environment=environment))
    outside.do("register", root=str(root))
    synced = outside.do("await_synced", tables=FLEET, patience_s=_PATIENCE_S).answer
    synced["cpu_s"] = sum(node.cpu_s().values())
    if synced["synced"] != FLEET or synced["refused"]:
        raise JobFailed(f"of {FLEET} tables: {synced}")
    what = f"mirror of {FLEET} tables, {name}"
    yield Line(
        f"{what}: all synced", _LIMIT, synced["all_s"], None, synced["all_s"], _SYNCED, synced
    )
    yield _seen(outside, root, what)
    yield _seen_before_new(outside, root, what)
    yield from _idle(outside, node, what)
    discarded = node.discarded()
    yield Line(f"{what}: tasks discarded", _LIMIT, None, None, discarded, _DISCARDED)


def _seen(outside: Engine, root: Path, what: str) -> Line:
    waits_s = outside.do(
        "follow",
        location=str(root / "t000"),
        commits=_COMMITS,
        pause_s=_PAUSE_S,
        patience_s=_PATIENCE_S,
    ).answer
    longest_s = max(waits_s)
    details = {"median_s": statistics.median(waits_s), "commits": _COMMITS}
    return Line(
        f"{what}: commit on one busy table to its row",
        _LIMIT,
        longest_s,
        None,
        longest_s,
        _SEEN,
        details,
    )


def _seen_before_new(outside: Engine, root: Path, what: str) -> Line:
    """Registers more tables, and removes them when all are synced."""
    new = root.parent / "new"
    make_fleet(new, _NEW)
    for location in new.iterdir():
        location.rename(root / f"new-{location.name}")
    outside.do("register_new", root=str(root))
    waits_s = outside.do(
        "follow",
        location=str(root / "t000"),
        commits=_COMMITS_BESIDE_NEW,
        pause_s=0.0,
        patience_s=_PATIENCE_S,
    ).answer
    waiting = outside.do("count_waiting").answer
    synced = outside.do("await_synced", tables=FLEET + _NEW, patience_s=_PATIENCE_S).answer
    outside.do("unregister_new")
    details = {"waits_s": waits_s, "waiting": waiting, "others_s": synced["all_s"]}
    return Line(
        f"{what}: commit on one busy table to its row, {_NEW} new tables wait",
        _LIMIT,
        max(waits_s),
        None,
        max(waits_s),
        _SEEN_BEFORE_NEW,
        details,
    )


def _idle(outside: Engine, node: Node, what: str) -> Iterator[Line]:
    clock = SystemClock()
    clock.sleep(_SETTLE_S)
    before, began_s = node.cpu_s(), clock.monotonic_s()
    clock.sleep(_IDLE_S)
    took_s = clock.monotonic_s() - began_s
    shares = {name: 100 * (used - before[name]) / took_s for name, used in node.cpu_s().items()}
    details = {
        "of": {name: round(share, 2) for name, share in shares.items()},
        "oldest_look_s": outside.do("oldest_look_s").answer,
    }
    share = sum(shares.values())
    yield Line(f"{what}: processor, nothing happens", _LIMIT, None, None, share, _IDLE, details)


def environment_of(folder: Path, database: str, redis: str) -> dict[str, str]:
    """Of a node whose home and tables lie below `folder`."""
    return {
        **driver_environment(),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_HOME": str(folder / "home"),
        "SLUICE_DATABASE": database,
        "SLUICE_REDIS_URL": redis,
        "SLUICE_TABLE_ROOTS": str(folder / "tables"),
        "SLUICE_SECRET_KEY": "of-the-bench",
        "SLUICE_WORKER_TOKEN": "of-the-bench",
    }


@contextmanager
def running_node(folder: Path, environment: Mapping[str, str]) -> Iterator[Node]:
    """Beat and the mirror's worker over a migrated database, until the block ends."""
    places = places_from(environment)
    places.run.mkdir(parents=True)
    migrate = (sys.executable, "manage.py", "migrate", "--verbosity", "0")
    subprocess.run(migrate, cwd=ROOT, env=dict(environment), check=True)
    queue, processes = WORKERS["mirror"]
    commands = {"mirror": worker_command((queue,), processes), "beat": beat_command(places)}
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                started[name] = subprocess.Popen(
                    command, cwd=ROOT, env=dict(environment), stdout=log, stderr=log
                )
        trees = {name: psutil.Process(process.pid) for name, process in started.items()}
        yield Node(trees, folder / "mirror.log")
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _cpu_s(process: psutil.Process) -> float:
    used = [one.cpu_times() for one in [process, *process.children(recursive=True)]]
    return sum(one.user + one.system for one in used)
