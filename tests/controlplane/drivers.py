"""Drivers of writes as a node sees them: one that has died, and a process that could be one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.operations.actions import do_record_report
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from workers.spark.process import DRIVER_FILE, JOB_FILE, is_driver


def run_dead(operation: Operation, pid: int = 2**22 - 1) -> None:
    """It was launched here, and no process with its pid carries its job."""
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DRIVER_FILE).write_text(json.dumps({"pid": pid}))
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": pid})


@pytest.fixture
def driver() -> Iterator[Callable[[Operation], int]]:
    """Starts a process that carries its job in its command line, as a driver does."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(operation: Operation) -> int:
        job = str(Path(run_dir(operation.pk)) / JOB_FILE)
        command = [sys.executable, "-c", "import time; time.sleep(60)", job]
        running.append(subprocess.Popen(command, start_new_session=True))
        while not is_driver(running[-1].pid, Path(run_dir(operation.pk))):
            time.sleep(0.01)
        run_dead(operation, running[-1].pid)
        return running[-1].pid

    yield begin
    for process in running:
        process.kill()
        process.wait()
