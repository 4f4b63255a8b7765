"""Sinks as operations: one that was launched, one that lives, and reconcile at a later time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.operations.actions import do_reconcile, do_record_report, do_start_sink
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.lake import Lake
from tests.support.sinks import SINK, TOPIC
from workers.spark.process import DRIVER_FILE, JOB_FILE, is_driver

OPTIONS = {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": SINK}
SOON, LATER = timedelta(seconds=12), timedelta(seconds=40)


def start(lake: Lake, by: User, **how: Any) -> Operation:
    return do_start_sink(lake.row, OPTIONS, by=by, **how)


def launched(operation: Operation, pid: int = 2**22 - 1) -> None:
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DRIVER_FILE).write_text(json.dumps({"pid": pid}))
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": pid})


def settled(operation: Operation, *, after: timedelta = SOON) -> str:
    do_reconcile(now=timezone.now() + after)
    operation.refresh_from_db()
    return operation.state


@pytest.fixture
def running(lake: Lake, admin: User) -> Iterator[Callable[..., Operation]]:
    """Launches sinks whose process lives and carries its job in its command line."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(**how: Any) -> Operation:
        operation = start(lake, admin, **how)
        folder = Path(run_dir(operation.pk))
        command = [sys.executable, "-c", "import time; time.sleep(60)", str(folder / JOB_FILE)]
        processes.append(subprocess.Popen(command, start_new_session=True))
        while not is_driver(processes[-1].pid, folder):
            time.sleep(0.01)
        launched(operation, processes[-1].pid)
        operation.refresh_from_db()
        return operation

    yield begin
    for process in processes:
        process.kill()
        process.wait()
