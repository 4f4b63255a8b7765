"""A write is a row before it is a message; what its driver leaves behind is settled by the decision
object.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
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
    do_reconcile,
    do_record_report,
    do_request_cancel,
    do_request_write,
)
from controlplane.operations.models import Operation
from controlplane.operations.recovery import recover_tables
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.drivers import run_dead
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.controlplane.service_jobs import sent_jobs
from workers.concurrency.heartbeat import heartbeat_path
from workers.jobs import CancelJob
from workers.spark.process import DRIVER_FILE, ENDING_FILE

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}
LATER = timedelta(minutes=1)


def start(lake: Lake, by: User, **source: Any) -> Operation:
    source = {"kind": "csv", "path": "/data/weather.csv", **source}
    return do_request_write(table=lake.row, parameters={"source": source}, by=by)


def settled(operation: Operation) -> str:
    do_reconcile(now=timezone.now() + LATER)
    operation.refresh_from_db()
    return operation.state


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
    os.utime(Path(lake.row.location) / heartbeat_path(write.instant), (old, old))
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
