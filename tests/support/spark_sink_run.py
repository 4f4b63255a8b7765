"""A sink as an operation runs it: a driver program, its JVM, its Python workers, each of which can
be killed. Spark starts workers again; `keep_up` does for the driver what the control plane does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.classic_environment import classic_environment
from tests.support.sink_run import ask_to_stop, has_committed
from workers.clock import SystemClock
from workers.jobs import SinkJob
from workers.lakehouse import open_table
from workers.options.sink_keys import SINK_OPTIONS
from workers.sink.config import SinkConfig, sink_config
from workers.sink.state_file import SinkState, read_state
from workers.spark.process import ENDING_FILE, LOG_FILE, is_driver, kill_driver, launch
from workers.storage.opener import open_storage

_POLL_S = 0.1
_OVER = ("STOPPED", "FENCED")


@dataclass
class SparkSinkRun:
    """One sink, launched anew whenever its driver has ended or died."""

    location: str
    options: Mapping[str, str]
    """Of the sink and of its writes."""
    folder: Path
    partitions: int
    """Of the topic."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the driver, beside what every driver has."""
    launches: int = 0
    _pid: int = 0
    _dead: set[psutil.Process] = field(default_factory=set)
    """By their start as well: after many kills the system gives their numbers to others."""

    @property
    def config(self) -> SinkConfig:
        own = {key: text for key, text in self.options.items() if key in SINK_OPTIONS}
        return sink_config(own)

    @property
    def run_dir(self) -> Path:
        return self.folder / "run" / str(self.launches)

    @property
    def is_up(self) -> bool:
        return is_driver(self._pid, self.run_dir) and not (self.run_dir / ENDING_FILE).exists()

    def start(self) -> None:
        self.launches += 1
        job = SinkJob(
            operation_id=str(uuid.uuid4()),
            table=self.location,
            sink_options=dict(self.options),
            session_id=str(uuid.uuid4()),
            run_dir=str(self.run_dir),
        )
        roots = {"SLUICE_TABLE_ROOTS": self.location.rpartition("/")[0]}
        pid = launch(job, {**classic_environment(), **roots, **self.environment})
        assert pid is not None
        self._pid = pid

    def keep_up(self) -> None:
        if not self.is_up:
            kill_driver(self.run_dir, self._pid, SystemClock())  # It may be about to end.
            self.start()

    def await_workers(self, *, within_s: float = 300.0) -> dict[int, int]:
        """Partition to the process that reads it, once a coordinator of the living driver tells
        of a participant for each.
        """
        deadline = time.monotonic() + within_s
        while True:
            workers = self._workers()
            if workers:
                return workers
            assert time.monotonic() < deadline, self.state_and_log()
            self.keep_up()
            time.sleep(_POLL_S)

    def kill(self, pid: int) -> None:
        """Raises NoSuchProcess."""
        victim = psutil.Process(pid)
        self._dead.add(victim)
        victim.kill()

    def kill_jvm(self) -> None:
        """Raises NoSuchProcess."""
        jvm_pids = [one.pid for one in self._tree() if one.name() == "java"]
        if not jvm_pids:
            raise psutil.NoSuchProcess(self._pid, msg="the driver has no JVM")
        for pid in jvm_pids:
            self.kill(pid)

    def kill_driver(self) -> None:
        """Only itself: its JVM and the workers are left to notice."""
        self.kill(self._pid)
        self._await_end()

    def kill_all(self) -> None:
        self._dead |= {*self._tree()}
        kill_driver(self.run_dir, self._pid, SystemClock())

    def await_offsets(self, offsets: Mapping[int, int], *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not has_committed(self.location, self.config.sink_id, offsets):
            assert time.monotonic() < deadline, self.state_and_log()
            self.keep_up()
            time.sleep(_POLL_S)

    def await_commit(self, *, within_s: float = 300.0) -> None:
        """Until one more transaction is committed, starting again what has died."""
        deadline = time.monotonic() + within_s
        before = self.commits()
        while self.commits() == before:
            assert time.monotonic() < deadline, self.state_and_log()
            self.keep_up()
            time.sleep(_POLL_S)

    def commits(self) -> int:
        return len(open_table(self.location).table.timeline().list_completed_writes())

    def stop(self, *, within_s: float = 180.0) -> None:
        ask_to_stop(self.location, self.config.sink_id)
        deadline = time.monotonic() + within_s
        while is_driver(self._pid, self.run_dir):
            assert time.monotonic() < deadline, self.state_and_log()
            time.sleep(_POLL_S)
        assert '"succeeded"' in (self.run_dir / ENDING_FILE).read_text(), self.state_and_log()

    def end(self) -> None:
        """Whatever still runs, at the end of a test."""
        kill_driver(self.run_dir, self._pid, SystemClock())

    def state(self) -> SinkState | None:
        return read_state(open_storage(self.location), self.config.sink_id)

    def state_and_log(self) -> tuple[SinkState | None, str]:
        log = self.run_dir / LOG_FILE
        return self.state(), log.read_text()[-4000:] if log.exists() else ""

    def _await_end(self) -> None:
        deadline = time.monotonic() + 60
        while is_driver(self._pid, self.run_dir):
            assert time.monotonic() < deadline, self.state_and_log()
            time.sleep(_POLL_S)

    def _workers(self) -> dict[int, int]:
        state = self.state()
        if state is None or state.state in _OVER or not self.is_up:
            return {}
        living = {one.pid for one in {*self._tree()} - self._dead}
        workers = {
            one.partition: int(one.worker.partition(":")[2])
            for one in state.participants
            if one.worker
        }
        is_whole = len(workers) == self.partitions and set(workers.values()) <= living
        return workers if is_whole else {}

    def _tree(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
