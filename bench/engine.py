"""An engine as a warm process: send it a job, get seconds, processor seconds and an answer back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

ROOT: Final = Path(__file__).resolve().parents[1]
_STOP_TIMEOUT_S = 30
_LOG_TAIL = 2_000


class JobFailed(Exception):
    """The engine could not do a job; the text is its own."""


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    """Wall time inside the driver."""
    cpu_s: float
    """Processor time of the driver and all its children, JVM and Python workers included."""
    answer: Any


class Engine:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._tree = psutil.Process(process.pid)
        self._log = log

    def do(self, job: str, **parameters: Any) -> Measured:
        """Raises JobFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._cpu_s()
        self._process.stdin.write(json.dumps({"do": job, **parameters}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            tail = self._log.read_text(errors="replace")[-_LOG_TAIL:]
            raise JobFailed(f"{job}: the driver ended: {tail}")
        said = json.loads(line)
        if "error" in said:
            raise JobFailed(f"{job}: {said['error']}")
        return Measured(said["s"], self._cpu_s() - before, said["answer"])

    def java_pid(self) -> int:
        """The driver's JVM. Raises JobFailed."""
        for process in self._tree.children(recursive=True):
            if process.name() == "java":
                return process.pid
        raise JobFailed("the driver has no JVM")

    def _cpu_s(self) -> float:
        total = 0.0
        with suppress(psutil.NoSuchProcess):
            for process in [self._tree, *self._tree.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    used = process.cpu_times()
                    total += used.user + used.system
                    total += used.children_user + used.children_system
        return total


def driver_environment() -> dict[str, str]:
    """This process's, without what would lead a driver to another Spark than its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {**kept, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def engine(
    driver: str,
    folder: Path,
    *,
    python: str = sys.executable,
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Engine]:
    """Start a module of `bench.drivers`, its log in `folder`; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{driver}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [python, "-m", f"bench.drivers.{driver}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=dict(environment or driver_environment()),
        )
    try:
        yield Engine(process, log)
    finally:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
