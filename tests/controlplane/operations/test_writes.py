"""A write is a row before it is a message; what its driver leaves behind is settled by the decision
object.
"""

from __future__ import annotations

import json
import os
import signal
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
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import (
    do_kill_demo_writer,
    do_reconcile,
    do_record_report,
    do_request_cancel,
    do_request_write,
    do_start_demo_conflict,
    do_start_demo_schema_conflict,
)
from controlplane.operations.demo import kill_in_the_middle
from controlplane.operations.models import Operation
from controlplane.operations.recovery import recover_tables
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.controlplane.service_jobs import sent_jobs
from workers.concurrency.heartbeat import path_of
from workers.jobs import CancelJob
from workers.spark.process import DRIVER_FILE, ENDING_FILE, JOB_FILE, is_driver

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}
LATER = timedelta(minutes=1)


def start(lake: Lake, by: User, **source: Any) -> Operation:
    source = {"kind": "csv", "path": "/data/weather.csv", **source}
    return do_request_write(table=lake.row, parameters={"source": source}, by=by)


def run_dead(operation: Operation, pid: int = 2**22 - 1) -> None:
    """It was launched here, and no process with its pid carries its job."""
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DRIVER_FILE).write_text(json.dumps({"pid": pid}))
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": pid})


def settled(operation: Operation) -> str:
    do_reconcile(now=timezone.now() + LATER)
    operation.refresh_from_db()
    return operation.state


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


def test_a_write_is_queued_with_session_and_user_chosen_beforehand(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)

    job = operation.parameters["job"]
    assert operation.state == "queued"
    assert job["session_id"] == operation.session_id
    assert job["options"]["sluice.operation.id"] == str(operation.pk)
    assert job["table"] == lake.row.location


@pytest.mark.parametrize(
    "parameters",
    [
        {"source": {"kind": "csv"}, "spark_conf": {"spark.jars": "/tmp/evil.jar"}},
        {"source": {"kind": "csv"}, "spark_conf": {"SPARK.sql.shuffle.partitions ": "8"}},
        {"source": {"kind": "csv"}, "options": {"hoodie.write.lock.provider": "x.Evil"}},
        {"source": {"kind": "shell"}},
        {"source": {"kind": "csv"}, "operation": "drop"},
        {"source": {"kind": "csv"}, "table": "/etc"},
    ],
    ids=" ".join,
)
def test_what_is_not_on_a_list_is_refused_before_anything_is_stored(
    lake: Lake, admin: User, parameters: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest):
        do_request_write(table=lake.row, parameters=parameters, by=admin)

    assert not Operation.objects.exists()


def test_a_driver_that_died_after_its_decision_has_succeeded(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    run_dead(operation)
    lake.commit(OSLO, operation_id=str(operation.pk))
    sync_table(lake.row)

    assert settled(operation) == "succeeded"


def test_a_driver_that_died_in_the_middle_of_its_rounds_has_failed(lake: Lake, admin: User) -> None:
    operation = start(lake, admin, kind="demo_stream", path=None, rounds=40)
    run_dead(operation)
    lake.commit(OSLO, operation_id=str(operation.pk))
    sync_table(lake.row)

    assert settled(operation) == "failed"


def test_a_driver_that_died_before_it_began_has_failed(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    run_dead(operation)

    assert settled(operation) == "failed"


def test_a_driver_that_lost_a_conflict_and_died_is_told_so(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    run_dead(operation)
    loser = lake.begin(OSLO, mode=OPTIMISTIC, operation_id=str(operation.pk))
    lake.begin(BERGEN, mode=OPTIMISTIC).commit()
    loser.commit()
    do_record_report(
        {"operation_id": str(operation.pk), "state": "running", "instant": loser.instant}
    )
    sync_table(lake.row)

    assert settled(operation) == "conflicted"


def test_a_dead_driver_is_taken_over_and_at_the_latest_undone_when_its_heartbeat_ran_out(
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = start(lake, admin)
    run_dead(operation)
    write = lake.begin(OSLO, operation_id=str(operation.pk), heartbeat_ms=10_000)
    write.transaction._started.heartbeat.stop()
    sync_table(lake.row)

    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        assert settled(operation) == "unknown"
    assert [task for task, _ in sent_jobs()] == [CancelJob.TASK]
    assert recover_tables() == 0, "its heartbeat is fresh still"

    old = timezone.now().timestamp() - 60
    os.utime(Path(lake.row.location) / path_of(write.instant), (old, old))
    sync_table(lake.row)
    assert recover_tables() == 1
    sync_table(lake.row)
    assert settled(operation) == "rolled_back"


def test_what_a_dead_driver_began_is_undone_though_the_mirror_does_not_know_it(
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = start(lake, admin)
    run_dead(operation)
    write = lake.begin(OSLO, operation_id=str(operation.pk))
    write.transaction._started.heartbeat.stop()

    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        assert settled(operation) == "unknown"
    assert [task for task, _ in sent_jobs()] == [CancelJob.TASK]


def test_the_last_word_of_a_driver_counts_even_when_its_report_was_lost(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin)
    run_dead(operation)
    loser = lake.begin(OSLO, mode=OPTIMISTIC, operation_id=str(operation.pk))
    lake.begin(BERGEN, mode=OPTIMISTIC).commit()
    loser.commit()
    folder = Path(run_dir(operation.pk))
    ending: dict[str, Any] = {
        "state": "conflicted",
        "message": "lost to ingest",
        "instant": loser.instant,
        "outcome": {},
    }
    (folder / ENDING_FILE).write_text(json.dumps(ending))

    assert settled(operation) == "conflicted"
    assert operation.message == "lost to ingest"


def test_a_driver_none_of_whose_reports_arrived_is_found_by_its_run_directory(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin)
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True)
    (folder / DRIVER_FILE).write_text(json.dumps({"pid": 2**22 - 1}))
    ending: dict[str, Any] = {"state": "failed", "message": "no such file", "instant": None}
    (folder / ENDING_FILE).write_text(json.dumps(ending))

    assert settled(operation) == "running"
    assert settled(operation) == "failed"
    assert (operation.message, operation.attempts) == ("no such file", 0)


def test_a_running_driver_is_left_alone(
    lake: Lake, admin: User, driver: Callable[[Operation], int]
) -> None:
    operation = start(lake, admin)
    driver(operation)

    assert settled(operation) == "running"


def test_a_process_that_got_the_pid_of_a_dead_driver_is_not_taken_for_it(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin)
    run_dead(operation, os.getpid())

    assert settled(operation) == "failed"


def test_a_lost_cancellation_is_sent_again_however_much_the_driver_tells(
    lake: Lake,
    admin: User,
    driver: Callable[[Operation], int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = start(lake, admin)
    driver(operation)
    with django_capture_on_commit_callbacks(execute=True):
        do_request_cancel(operation=operation, by=admin)
    sent_jobs()  # The queue has lost it.
    later = timezone.now() + timedelta(seconds=25)
    progress = {"done": 3, "total": 40, "unit": "rounds"}
    do_record_report({"operation_id": str(operation.pk), "state": "progress", "progress": progress})
    Operation.objects.filter(pk=operation.pk).update(changed_at=later)

    with django_capture_on_commit_callbacks(execute=True):
        do_reconcile(now=later)

    assert [task for task, _ in sent_jobs()] == [CancelJob.TASK]


def test_a_cancelled_write_whose_driver_ended_is_cancelled(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    run_dead(operation)

    do_request_cancel(operation=operation, by=admin)

    operation.refresh_from_db()
    assert operation.state == "cancelling"
    assert settled(operation) == "cancelled"


def test_what_has_ended_cannot_be_cancelled(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    do_record_report({"operation_id": str(operation.pk), "state": "failed"})
    operation.refresh_from_db()

    with pytest.raises(NotAllowedNow):
        do_request_cancel(operation=operation, by=admin)


def test_the_demo_kills_only_a_driver_that_carries_the_operation_in_its_name(
    lake: Lake, admin: User, driver: Callable[[Operation], int]
) -> None:
    operation = start(lake, admin, kind="demo_stream", path=None)
    run_dead(operation, os.getpid())
    with pytest.raises(NotAllowedNow):
        do_kill_demo_writer(lake.row, admin)

    pid = driver(operation)

    assert do_kill_demo_writer(lake.row, admin).pk == operation.pk
    assert kill_in_the_middle(lake.row, wait_s=0.2) is not None
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_the_demo_kills_the_writer_that_has_files_down_rather_than_the_one_that_rests(
    lake: Lake, admin: User, driver: Callable[[Operation], int]
) -> None:
    writing = start(lake, admin, kind="demo_stream", path=None)
    resting = start(lake, admin, kind="demo_stream", path=None)
    pids = [driver(writing), driver(resting)]
    lake.begin(OSLO, operation_id=str(writing.pk))

    killed = kill_in_the_middle(lake.row)

    assert killed is not None
    assert killed.pk == writing.pk
    assert os.waitpid(pids[0], 0)[1] == signal.SIGKILL
    assert os.waitpid(pids[1], os.WNOHANG) == (0, 0)


def test_a_demo_stream_whose_driver_died_is_started_again_but_not_for_ever(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin, kind="demo_stream", path=None)

    for _ in range(6):
        run_dead(Operation.objects.order_by("requested_at").last() or operation)
        do_reconcile(now=timezone.now() + LATER)

    runs = list(Operation.objects.order_by("requested_at"))
    assert [run.parameters["restarts"] for run in runs] == [0, 1, 2, 3]
    assert {run.state for run in runs} == {"failed"}
    assert len({run.session_id for run in runs}) == len(runs)


def test_the_demo_conflict_is_two_optimistic_writers_and_runs_once_at_a_time(
    lake: Lake, admin: User
) -> None:
    first, second = do_start_demo_conflict(lake.row, admin)

    options = [run.parameters["job"]["options"] for run in (first, second)]
    assert [one["sluice.writer.name"] for one in options] == ["backfill-a", "backfill-b"]
    assert {one["hoodie.write.concurrency.mode"] for one in options} == {OPTIMISTIC}
    with pytest.raises(NotAllowedNow):
        do_start_demo_conflict(lake.row, admin)
    do_start_demo_schema_conflict(lake.row, admin)


def test_password_of_a_lock_is_refused_before_anything_is_stored(lake: Lake, admin: User) -> None:
    options = {
        "hoodie.write.lock.provider": "redis",
        "sluice.lock.url": "redis://:a-password@cache:6379/0",
    }
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}, "options": options}

    with pytest.raises(InvalidRequest, match="SLUICE_LOCK_URL") as refused:
        do_request_write(table=lake.row, parameters=parameters, by=admin)

    assert "a-password" not in str(refused.value)
    assert not Operation.objects.exists()
