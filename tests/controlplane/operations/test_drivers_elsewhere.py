"""A driver on another machine is no process here: its reports, and what beats beside the table, say
whether it lives.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.mirror.models import HeartbeatRecord
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_reconcile, do_record_report, do_request_write
from controlplane.operations.cancels import cancel_job
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import sent_jobs
from workers.jobs import CancelJob
from workers.options.write_options import driver_options
from workers.tasks.cancel import roll_back_pending

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def elsewhere(lake: Lake, by: User) -> Operation:
    """It says that it runs, and no run directory of this machine knows it."""
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    operation = do_request_write(table=lake.row, parameters=parameters, by=by)
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": 4711})
    return operation


def test_a_driver_on_another_machine_is_judged_by_its_heartbeat_and_silence(
    lake: Lake, admin: User
) -> None:
    operation = elsewhere(lake, admin)
    write = lake.begin(OSLO, operation_id=str(operation.pk), heartbeat_ms=600_000)
    sync_table(lake.row)

    do_reconcile(now=timezone.now() + timedelta(minutes=6))
    operation.refresh_from_db()
    assert operation.state == "running", "silent, and its heart beats"

    write.commit()
    sync_table(lake.row)
    do_reconcile(now=timezone.now() + timedelta(minutes=6))
    operation.refresh_from_db()
    assert operation.state == "succeeded"


def test_a_driver_that_died_on_another_machine_is_settled_within_a_minute(
    lake: Lake,
    admin: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(Path(lake.row.location).parent))
    operation = elsewhere(lake, admin)
    options = driver_options({})
    write = lake.begin(
        OSLO,
        operation_id=str(operation.pk),
        heartbeat_ms=int(options["hoodie.client.heartbeat.interval_in_ms"]),
        heartbeat_misses=int(options["hoodie.client.heartbeat.tolerable.misses"]),
    )
    write.transaction._started.heartbeat.stop()
    died_at = timezone.now()

    sent_jobs()

    def seen(after_s: int) -> tuple[str, list[str]]:
        with django_capture_on_commit_callbacks(execute=True):
            do_reconcile(now=died_at + timedelta(seconds=after_s))
        operation.refresh_from_db()
        return operation.state, [task for task, _ in sent_jobs()]

    assert seen(36) == ("running", []), "its last beat counts for 40 s"
    assert seen(50) == ("unknown", [CancelJob.TASK])
    undone(lake, operation)
    assert seen(58) == ("rolled_back", [])


def undone(lake: Lake, operation: Operation) -> None:
    """What the job does that was sent."""
    job = cancel_job(operation, by="control plane", reason="its driver died")
    roll_back_pending(job, lake.table.ports)
    sync_table(lake.row)


def test_a_driver_elsewhere_whose_instant_others_rolled_back_is_over_within_a_minute(
    lake: Lake, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(Path(lake.row.location).parent))
    operation = elsewhere(lake, admin)
    write = lake.begin(OSLO, operation_id=str(operation.pk), heartbeat_ms=10_000)
    write.transaction._started.heartbeat.stop()
    sync_table(lake.row)
    undone(lake, operation)

    do_reconcile(now=timezone.now() + timedelta(seconds=58))
    operation.refresh_from_db()
    assert operation.state == "running", "one that lives begins anew"
    do_reconcile(now=timezone.now() + timedelta(seconds=62))
    operation.refresh_from_db()
    assert operation.state == "rolled_back"


def test_a_late_mirror_is_no_death(lake: Lake, admin: User) -> None:
    operation = elsewhere(lake, admin)
    write = lake.begin(OSLO, operation_id=str(operation.pk), heartbeat_ms=600_000)
    sync_table(lake.row)
    old = timezone.now() - timedelta(hours=2)
    HeartbeatRecord.objects.update(beat_at=old)

    do_reconcile(now=timezone.now() + timedelta(minutes=1))
    operation.refresh_from_db()
    assert operation.state == "running"
    write.transaction.abort("the test is over")
