"""The road of a log, with real processes: a worker's and a driver's lines reach the database while
they run, those of a killed one up to its end, and no secret goes along.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from controlplane.operations.actions import do_reconcile, do_request_write
from controlplane.operations.log_collecting import do_collect
from controlplane.operations.log_queries import LogLineRow, log_page
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, sent_jobs
from tests.support.task_worker import task_worker
from workers.clock import SystemClock
from workers.jobs import driver_job
from workers.spark.process import LOG_FILE, kill_driver, launch

CANARY = "c4nary-of-the-bucket"
OSLO = {"id": "1", "ts": 1, "city": "Oslo"}

pytestmark = pytest.mark.django_db(transaction=True)


def rows_of(operation: Operation) -> list[LogLineRow]:
    return log_page(operation.pk, is_whole=True, limit=1_000).rows


def words_of(operation: Operation) -> str:
    return "\n".join(row.message for row in rows_of(operation))


def wait_until(happened: Callable[[], object], operation: Operation) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, words_of(operation)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("working")
def test_a_worker_tells_what_it_does_and_no_secret(lake: Lake, admin: User, root: Path) -> None:
    lake.commit(OSLO)
    sent_jobs()
    operation = ask(lake, "savepoint", admin)
    [(task, message)] = sent_jobs()
    environment = {"SLUICE_TABLE_ROOTS": str(root), "AWS_SECRET_ACCESS_KEY": CANARY}
    message["plan_hash"] = CANARY

    with task_worker(environment) as worker:
        assert worker.carry_out(task, message)

    rows = rows_of(operation)
    own = [row for row in rows if row.source == "workers.tasks.reports"]
    assert [row.attempt for row in own] == [1] * len(own)
    assert own[0].message == "running: savepoint begins"
    assert own[-1].level in ("warning", "error")
    assert "***" in words_of(operation)
    assert CANARY not in words_of(operation)
    assert CANARY not in "".join(
        path.read_text() for path in Path(run_dir(operation.pk)).glob("*.log")
    )


@pytest.fixture
def launched(lake: Lake, admin: User, live_server: LiveServer, settings: Settings) -> Operation:
    """Its job is in the queue, and reports to a control plane that answers."""
    settings.SLUICE_REPORT_URL = f"{live_server.url}/api/v1/reports/operations/"
    lake.commit(OSLO)
    parameters = {
        "source": {"kind": "csv", "path": "/data/weather.csv"},
        "options": {"sluice.writer.name": "loader"},
    }
    operation = do_request_write(table=lake.row, parameters=parameters, by=admin)
    sent_jobs()
    return operation


def start_driver(operation: Operation, settings: Settings, root: Path) -> int:
    """Without Spark: it ends as soon as it opens its source."""
    environment = {
        **os.environ,
        "SLUICE_TABLE_ROOTS": str(root),
        "SLUICE_WORKER_TOKEN": settings.SLUICE_WORKER_TOKEN,
        "AWS_SECRET_ACCESS_KEY": CANARY,
    }
    pid = launch(driver_job(operation.parameters["job"]), environment)
    assert pid is not None
    return pid


@pytest.mark.slow
def test_a_driver_tells_how_it_ended(launched: Operation, settings: Settings, root: Path) -> None:
    start_driver(launched, settings, root)

    def errors() -> list[LogLineRow]:
        rows = rows_of(launched)
        return [row for row in rows if (row.source, row.level) == ("workers.spark.runner", "error")]

    wait_until(errors, launched)
    wait_until(lambda: "running -> failed" in words_of(launched), launched)

    assert errors()[0].host


def test_a_killed_driver_leaves_what_it_had_written(
    launched: Operation, settings: Settings, root: Path
) -> None:
    pid = start_driver(launched, settings, root)
    kill_driver(Path(run_dir(launched.pk)), pid, SystemClock())
    with (Path(run_dir(launched.pk)) / LOG_FILE).open("a") as log:
        log.write(f"Fatal Python error: {CANARY}\npassword=c4nary")
    settings.SECRET_KEY = CANARY  # As a secret that the control plane knows.

    do_collect([launched])
    do_collect([launched])

    assert words_of(launched).count("Fatal Python error: ***") == 1
    assert words_of(launched).endswith("password=***")


@pytest.mark.slow
def test_a_driver_without_a_control_plane_ends_all_the_same_and_its_log_comes_later(
    launched: Operation, settings: Settings, root: Path
) -> None:
    job = launched.parameters["job"]
    job["report_url"] = "http://127.0.0.1:9/nowhere/"
    launched.save()
    start_driver(launched, settings, root)
    ending = Path(run_dir(launched.pk)) / "ending.json"
    wait_until(ending.exists, launched)
    assert "workers.spark.runner" not in [row.source for row in rows_of(launched)]
    wait_until(lambda: "not reported" in (ending.parent / LOG_FILE).read_text(), launched)

    Operation.objects.filter(pk=launched.pk).update(state="running")
    do_collect([launched])
    do_reconcile()

    assert json.loads(ending.read_text())["state"] == "failed"
    assert "this log is not taken at the moment" in words_of(launched)
    assert "the end of this log was not reported" in words_of(launched)
