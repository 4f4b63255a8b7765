"""The processes of a small node on loopback: web, a worker that settles and mirrors, and four
workers of the queue `engine`, each the leader of a process group, which are killed and started
again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.engine import ROOT, driver_environment
from controlplane.celery import app
from controlplane.node.processes import worker_command
from controlplane.operations.run_dirs import run_dir
from workers.processes import find_free_port
from workers.reporting.run_lock import LOCK_FILE

ENGINES: Final = 4
CHILD: Final = "child alone"
DEATHS: Final = ("worker and child", "worker alone", CHILD)
RECONCILE_EVERY_S: Final = 5.0
MIRROR_EVERY_S: Final = 2.0
_BEATS: Final = (
    ("controlplane.operations.reconcile", "control", RECONCILE_EVERY_S),
    ("controlplane.mirror.sync_tables", "mirror", MIRROR_EVERY_S),
)
_AIMED: Final = 0.8
"""Of the deaths. Workers wait for most of their time, since asking is the longer part."""
_AIMS_S: Final = 2.0
_AIM_EVERY_S: Final = 0.005
_LASTS_S: Final = 0.15
"""It dies at a random moment of so long."""
_UP_WITHIN_S: Final = 60.0
_STOP_S: Final = 20.0


def environment_of(folder: Path, database: str, redis: str) -> dict[str, str]:
    """Of all processes of a node whose home and tables lie below `folder`."""
    port = find_free_port()
    home = folder / "home"
    return {
        **driver_environment(),
        "DJANGO_SETTINGS_MODULE": "tests.controlplane.kills.settings",
        "PROMETHEUS_MULTIPROC_DIR": str(home / "counts"),
        "SLUICE_DATABASE": database,
        "SLUICE_DEMO": "0",
        "SLUICE_HOME": str(home),
        "SLUICE_LOG_LEVEL": "WARNING",
        "SLUICE_METRICS_TOKEN": "of-the-test",
        "SLUICE_REDIS_URL": redis,
        "SLUICE_SECRET_KEY": "of-the-test",
        "SLUICE_SOURCE_ROOTS": str(folder),
        "SLUICE_TABLE_ROOTS": str(folder / "tables"),
        "SLUICE_WEB_PORT": str(port),
        "SLUICE_WORKER_TOKEN": "of-the-test",
    }


@dataclass
class Death:
    what: str
    pids: list[int]
    """Of the worker and its children, whether or not all of them were killed."""


class Engines:
    """The four workers. One that dies is started again at once, as a supervisor would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = [self._started(number) for number in range(ENGINES)]
        self._orphans: list[psutil.Process] = []
        self._cpu_of_dead_s = 0.0

    def kill_one(
        self, chance: random.Random, at_work: Callable[[], Collection[int]], deaths: Sequence[str]
    ) -> Death:
        """Mostly one that is at a job: `at_work` gives the processes that are."""
        what, number = chance.choice(deaths), chance.randrange(ENGINES)
        if chance.random() < _AIMED:
            number = chance.choice(self._await_jobs(at_work) or [number])
            time.sleep(chance.random() * _LASTS_S)
        at_work()
        process = self._processes[number]
        children = psutil.Process(process.pid).children(recursive=True)
        death = Death(what, [process.pid, *(child.pid for child in children)])
        self._cpu_of_dead_s += sum(sum(child.cpu_times()[:2]) for child in children)
        if what == CHILD:
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            return death
        self._cpu_of_dead_s += sum(psutil.Process(process.pid).cpu_times()[:2])
        if what == "worker and child":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
            self._orphans += children  # They end what they have in hand, and then themselves.
        process.wait()
        self._processes[number] = self._started(number)
        return death

    def _await_jobs(self, at_work: Callable[[], Collection[int]]) -> list[int]:
        """Which workers are at a job, as soon as any is; none where that takes too long."""
        deadline_s = time.monotonic() + _AIMS_S
        trees = [psutil.Process(process.pid) for process in self._processes]
        while time.monotonic() < deadline_s:
            busy = set(at_work())
            chosen = [
                number
                for number, tree in enumerate(trees)
                if busy.intersection(child.pid for child in tree.children())
            ]
            if chosen:
                return chosen
            time.sleep(_AIM_EVERY_S)
        return []

    def orphans_left(self) -> list[psutil.Process]:
        self._orphans = [one for one in self._orphans if one.is_running()]
        return self._orphans

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            _await_end(process)
        for orphan in self.orphans_left():
            with suppress(psutil.NoSuchProcess):
                orphan.kill()

    def cpu_s(self) -> float:
        """Of all that were started, but what orphans did after their worker's death."""
        return self._cpu_of_dead_s + sum(cpu_s(process.pid) for process in self._processes)

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        # Every second one as they run where the control plane does not, which start sooner.
        app_name = "controlplane.celery" if number % 2 else "workers.celery"
        node_command = worker_command(("engine",), 1)
        command = [app_name if word == "controlplane.celery" else word for word in node_command]
        own = ("--include", "tests.controlplane.kills.arrow_task")
        name = ("--hostname", f"engine{number}@%h")
        return _start((*command, *name, *own), self._folder / f"engine{number}.log")


class Beat:
    """What Celery's clock sends, of it all that this node needs."""

    def __init__(self) -> None:
        self._due_s = dict.fromkeys((task for task, _, _ in _BEATS), 0.0)

    def tick(self) -> None:
        now_s = time.monotonic()
        for task, queue, every_s in _BEATS:
            if now_s >= self._due_s[task]:
                self._due_s[task] = now_s + every_s
                app.send_task(task, queue=queue, expires=2 * every_s)


@contextmanager
def control_plane(folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, int]]:
    """Web and the worker of the control plane; their pids by name."""
    port = environment["SLUICE_WEB_PORT"]
    web = (
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
        *("--host", "127.0.0.1", "--port", port, "--lifespan", "off", "--no-access-log"),
        *("--log-level", "warning"),
    )
    pooled = {**environment, "SLUICE_DATABASE_POOL": "16"}
    control = (*worker_command(("control", "mirror"), 2), "--hostname", "control@%h")
    started = {
        "web": _start(web, folder / "web.log", pooled),
        "control": _start(control, folder / "control.log", environment),
    }
    try:
        _await_web(port)
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            _await_end(process)


def held_by(operation_ids: Iterable[str]) -> dict[str, int]:
    """Operation -> the process that is at its job, by the kernel's list of locks."""
    holders: dict[int, int] = {}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" not in fields and fields[1] == "FLOCK":
            holders[int(fields[5].rpartition(":")[2])] = int(fields[4])
    held = {}
    for operation_id in operation_ids:
        with suppress(FileNotFoundError):
            lock = Path(run_dir(uuid.UUID(operation_id))) / LOCK_FILE
            if (pid := holders.get(lock.stat().st_ino)) is not None:
                held[operation_id] = pid
    return held


def cpu_s(pid: int) -> float:
    """Of a process and its children, those included that have ended and were waited for."""
    with suppress(psutil.NoSuchProcess):
        tree = psutil.Process(pid)
        times = [one.cpu_times() for one in [tree, *tree.children(recursive=True)]]
        return sum(one.user + one.system for one in times)
    return 0.0


def _start(
    command: tuple[str, ...], log_path: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with log_path.open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment or os.environ),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await_web(port: str) -> None:
    deadline_s = time.monotonic() + _UP_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline_s, "web did not come up"
            time.sleep(0.1)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
