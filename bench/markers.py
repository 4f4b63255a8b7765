"""The marker server: against Apache Hudi's own, over storage with latency, and by itself.

Every measurement has an instant of its own, so no server has less to remember than the other.
"""

from __future__ import annotations

import json
import logging
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import psutil

from bench.engine import JobFailed, driver_environment, engine
from bench.lines import Goal, Line
from bench.support.hudi_environment import HudiMissing, hudi_environment
from bench.support.listeners import start_listener
from bench.support.marker_server import start_marker_server
from workers.markers.marker import markers_directory_path
from workers.markers.tokens import mint_token

HUDI: Final = "Apache Hudi 1.2, timeline server"
_SECRET: Final = "bench"  # noqa: S105 # Of a server that lives for some minutes.
_ROUNDS = 3
_MANY, _FEW = 1_000, 16
_WRITE_MS = 50

Batches = Sequence[Sequence[str]]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Server:
    """One that is loaded: ours with a token, or another."""

    port: int
    pid: int
    table: Path
    has_tokens: bool
    _instants: int = field(default=0)

    def loaded(self, batches: Batches, connections: int) -> dict[str, Any]:
        """Register into a new instant; the client's result, with the server's seconds of CPU.

        Raises JobFailed.
        """
        self._instants += 1
        instant = f"20240101{self._instants:09d}"
        job = {
            "port": self.port,
            "directory": markers_directory_path(str(self.table), instant),
            "token": mint_token(_SECRET, str(self.table), instant) if self.has_tokens else None,
            "requests": batches,
            "connections": connections,
        }
        process = psutil.Process(self.pid)
        before = _cpu_s(process)
        done = subprocess.run(
            [sys.executable, "-m", "bench.drivers.marker_load"],
            input=json.dumps(job),
            stdout=subprocess.PIPE,
            text=True,
            env=driver_environment(),
            check=False,
        )
        if done.returncode:
            raise JobFailed("the load client ended; what the server said stands above")
        result: dict[str, Any] = json.loads(done.stdout)
        return {**result, "server_cpu_s": _cpu_s(process) - before}


def marker_server(folder: Path) -> Iterator[Line]:
    """All lines. Raises JobFailed."""
    shutil.rmtree(folder, ignore_errors=True)
    with ExitStack() as stack:
        ours = stack.enter_context(_ours(folder / "ours"))
        hudi = stack.enter_context(_hudi(folder / "hudi"))
        yield from _against_hudi(ours, hudi)
        yield _bulk_rate(ours)
        yield _last_batch(ours)
    yield from _slow_storage(folder / "slow")
    shutil.rmtree(folder, ignore_errors=True)


def _against_hudi(ours: Server, hudi: Server | None) -> Iterator[Line]:
    """Servers take turns; round 0 warms up and is not counted."""
    servers = {"ours": ours} | ({} if hudi is None else {"peer": hudi})
    many: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    few: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for number in range(_ROUNDS + 1):
        for name, server in servers.items():
            loaded = server.loaded(_one_each(20_000), _MANY), server.loaded(_one_each(1_600), _FEW)
            if number:
                many[name].append(loaded[0])
                few[name].append(loaded[1])
    yield _line(
        f"markers, one request each, {_MANY:,} connections: 20,000",
        {name: _median(found, "took_s") for name, found in many.items()},
        Goal(1),
        many,
    )
    yield _line(
        f"marker, median latency at {_FEW} connections",
        {name: _median(found, "p50_ms") / 1000 for name, found in few.items()},
        Goal(0.1, is_least=False),
        few,
    )


def _line(
    name: str, seconds: dict[str, float], goal: Goal, results: dict[str, list[dict[str, Any]]]
) -> Line:
    ours_s, peer_s = seconds["ours"], seconds.get("peer")
    ratio = None
    if peer_s is not None:
        ratio = peer_s / ours_s if goal.is_least else ours_s / peer_s
    details = {
        side: {
            "rate": round(_median(found, "rate")),
            "p50_ms": round(_median(found, "p50_ms"), 2),
            "p99_ms": round(_median(found, "p99_ms"), 2),
            "client_us_per_marker": round(_median(found, "client_us"), 1),
            "cpu_s": round(_median(found, "server_cpu_s"), 2),
        }
        for side, found in results.items()
    }
    return Line(name, HUDI, ours_s, peer_s, ratio, goal, details)


def _bulk_rate(ours: Server) -> Line:
    """Markers per second of the server's processor time, ten thousand in a request."""
    count, per_request = 200_000, 10_000
    results = [ours.loaded(_batches(count, per_request), 1) for _ in range(_ROUNDS + 1)][1:]
    took_s, cpu_s = _median(results, "took_s"), _median(results, "server_cpu_s")
    goal = Goal(100_000, "/s/core")
    details = {"ours": {"cpu_s": round(cpu_s, 2), "per_s": round(count / took_s)}}
    name = f"markers, {per_request:,} per request: {count:,}"
    return Line(name, "(a limit)", took_s, None, count / cpu_s, goal, details)


def _last_batch(ours: Server) -> Line:
    """The median of the last tenth of the batches against that of the first."""
    count, per_request = 100_000, 500
    ours.loaded(_batches(10_000, per_request), 1)
    firsts: list[float] = []
    lasts: list[float] = []
    for _ in range(_ROUNDS):
        waits = ours.loaded(_batches(count, per_request), 1)["waits_s"]
        tenth = len(waits) // 10
        # The very first also makes the directory and its files.
        firsts.append(statistics.median(waits[tenth : 2 * tenth]))
        lasts.append(statistics.median(waits[-tenth:]))
    first_s, last_s = statistics.median(firsts), statistics.median(lasts)
    name = f"{count:,} markers: the last batch of {per_request} by an early one"
    goal = Goal(1.2, is_least=False)
    return Line(name, "its own early batches", last_s, first_s, last_s / first_s, goal)


def _slow_storage(folder: Path) -> Iterator[Line]:
    """Ten thousand markers of 16 tasks, every write of the storage 50 ms."""
    tasks, count = 16, 10_000
    with _slow(folder / "bulk") as (server, writes):
        result = server.loaded(_batches(count, count // tasks), tasks)
        at_most, took_s = writes(), result["took_s"]
    name = f"{count:,} markers of {tasks} tasks, {_WRITE_MS} ms per write, in bulk"
    yield Line(
        f"{name}: writes", "(a limit)", took_s, None, at_most, Goal(25, " writes", is_least=False)
    )
    yield Line(f"{name}: time", "(a limit)", took_s, None, took_s, Goal(1, " s", is_least=False))
    seconds = {}
    details = {}
    for side, interval in (("ours", ()), ("tick", (str(_WRITE_MS),))):
        with _slow(folder / side, *interval) as (server, writes):
            seconds[side] = server.loaded(_one_each(count), tasks)["took_s"]
            details[side] = {"writes": writes()}
    yield Line(
        f"{count:,} markers of {tasks} tasks, {_WRITE_MS} ms per write, one by one",
        f"a fixed tick of {_WRITE_MS} ms",
        seconds["ours"],
        seconds["tick"],
        seconds["tick"] / seconds["ours"],
        Goal(1.8),
        details,
    )


@contextmanager
def _ours(folder: Path) -> Iterator[Server]:
    table = _table(folder)
    server = start_marker_server(roots=[folder], secret=_SECRET, log=folder / "server.log")
    try:
        yield Server(server.port, server.pid, table, has_tokens=True)
    finally:
        server.stop()


@contextmanager
def _slow(folder: Path, *interval_ms: str) -> Iterator[tuple[Server, Callable[[], int]]]:
    """The server and how many writes its storage has seen."""
    table, counted = _table(folder), folder / "writes"
    arguments = [str(folder), str(_WRITE_MS), str(counted), *interval_ms]

    def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bench.drivers.marker_server", str(port), *arguments]
        return subprocess.Popen(command, env=driver_environment(), stdout=output, stderr=output)

    listener = start_listener(start, folder / "server.log")
    server = Server(listener.port, listener.process.pid, table, has_tokens=False)
    try:
        yield server, lambda: int(counted.read_text())
    finally:
        listener.process.terminate()
        listener.process.wait()


@contextmanager
def _hudi(folder: Path) -> Iterator[Server | None]:
    environment = hudi_environment()
    if isinstance(environment, HudiMissing):
        _log.warning("without Apache Hudi: %s", environment.reason)
        yield None
        return
    with engine(
        "hudi_timeline", folder, python=str(environment.python), arguments=(str(environment.jar),)
    ) as driver:
        port = driver.do("port").answer
        yield Server(port, driver.java_pid(), _table(folder), has_tokens=False)


def _table(folder: Path) -> Path:
    table = folder / "table"
    (table / ".hoodie").mkdir(parents=True)
    (table / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=9\n")
    return table


def _one_each(count: int) -> Batches:
    return _batches(count, 1)


def _batches(count: int, per_request: int) -> Batches:
    names = [
        f"p={number % 32}/{number:08d}-0000-0000-0000-000000000000-0_{number}-12-345_"
        f"20240101000000000.parquet.marker.CREATE"
        for number in range(count)
    ]
    return [names[at : at + per_request] for at in range(0, count, per_request)]


def _median(results: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(float(one[key]) for one in results)


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)
