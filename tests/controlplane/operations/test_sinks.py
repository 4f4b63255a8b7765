"""A sink as an operation: launched and stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import (
    do_record_report,
    do_request_cancel,
    do_start_sink,
    do_stop_sink,
)
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_stops import GRACE_S
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import (
    LATER,
    OPTIONS,
    settled,
    start,
)
from tests.support.sinks import SINK, TOPIC, stopped_state, stuck_state
from workers.jobs import SinkJob, driver_job
from workers.sink.sink_paths import SinkPaths
from workers.sink.state_file import put_state
from workers.sink.stop_request import StopKind, read_stop
from workers.spark.process import ENDING_FILE


def test_sink_is_queued_as_a_job_with_its_session_chosen_beforehand(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin, reason="orders come in", relaunches_max=3)

    job = driver_job(operation.parameters["job"])
    assert isinstance(job, SinkJob)
    assert (operation.kind, operation.sink_id, operation.state) == ("sink", SINK, "queued")
    assert job.session_id == operation.session_id
    assert job.sink_options == OPTIONS
    assert job.application == "own"
    event = AuditEvent.objects.get(what="sink.start")
    assert (event.result, event.reason) == ("requested", "orders come in")


def test_sink_without_an_id_is_named_after_its_topic(lake: Lake, admin: User) -> None:
    operation = do_start_sink(lake.row, {"hoodie.kafka.topic": TOPIC}, by=admin)

    assert operation.sink_id == TOPIC


REFUSED = [
    {"hoodie.kafka.topic": ""},
    {"hoodie.kafka.topik": "orders"},
    {"hoodie.sink.id": "../../x"},
    {"hoodie.kafka.commit.interval.secs": "0"},
    {"sasl.password.env": "SLUICE_SECRET_KEY"},
    {"sasl.password.env": "AWS_SECRET_ACCESS_KEY"},
    {"hoodie.sink.schema.source": "registry_file", "hoodie.sink.schema.file": "/etc/passwd"},
    {"hoodie.sink.dead.letter.path": "/etc"},
    {"hoodie.write.lock.provider": "x.Evil"},
    {"hoodie.kafka.start.offsets": "newest"},
]


@pytest.mark.parametrize("changes", REFUSED, ids=lambda change: next(iter(change)))
def test_what_the_sink_would_refuse_is_refused_before_anything_is_stored(
    lake: Lake, admin: User, changes: dict[str, str]
) -> None:
    with pytest.raises(InvalidRequest):
        do_start_sink(lake.row, OPTIONS | changes, by=admin)

    assert not Operation.objects.exists()


def test_spark_settings_applications_and_relaunches_are_checked(lake: Lake, admin: User) -> None:
    for how in (
        {"spark_conf": {"spark.jars": "/tmp/evil.jar"}},
        {"application": "cluster"},
        {"relaunches_max": 1000},
    ):
        with pytest.raises(InvalidRequest):
            do_start_sink(lake.row, OPTIONS, by=admin, **how)

    assert not Operation.objects.exists()


def test_copy_on_write_table_takes_no_sink(lake: Lake, admin: User) -> None:
    Table.objects.filter(pk=lake.row.pk).update(table_type="COPY_ON_WRITE")
    lake.row.refresh_from_db()

    with pytest.raises(InvalidRequest, match="merge-on-read"):
        start(lake, admin)


def test_one_sink_has_one_open_operation_and_another_sink_its_own(lake: Lake, admin: User) -> None:
    start(lake, admin)

    with pytest.raises(NotAllowedNow):
        start(lake, admin)
    do_start_sink(lake.row, OPTIONS | {"hoodie.sink.id": "other"}, by=admin)

    assert Operation.objects.count() == 2


def test_same_request_twice_is_one_operation(lake: Lake, admin: User) -> None:
    first = start(lake, admin, idempotency_key="k")

    assert start(lake, admin, idempotency_key="k").pk == first.pk


def test_graceful_stop_is_asked_for_beside_the_table(
    lake: Lake, running: Callable[..., Operation]
) -> None:
    operation = running()

    do_stop_sink(lake.row, SINK, by="olaf", reason="upgrade")

    operation.refresh_from_db()
    stop = read_stop(lake.table.storage, SINK)
    assert stop is not None
    assert (stop.kind, stop.by) == (StopKind.GRACEFUL, "olaf")
    assert (operation.state, operation.message) == (
        "stopping",
        "stopping after the current transaction",
    )
    event = AuditEvent.objects.get(what="sink.stop")
    assert (event.who, event.reason) == ("olaf", "upgrade")


def test_sink_that_ends_after_a_graceful_stop_has_succeeded(
    lake: Lake, running: Callable[..., Operation]
) -> None:
    operation = running()
    do_stop_sink(lake.row, SINK, by="olaf")
    ended = {"state": "succeeded", "message": "stop requested"}
    (Path(run_dir(operation.pk)) / ENDING_FILE).write_text(json.dumps(ended))

    do_record_report({"operation_id": str(operation.pk), **ended})

    operation.refresh_from_db()
    assert (operation.state, operation.message) == ("succeeded", "stop requested")


def test_stop_request_that_a_starting_sink_cleared_is_written_again(
    lake: Lake, running: Callable[..., Operation]
) -> None:
    operation = running()
    do_stop_sink(lake.row, SINK, by="olaf")
    lake.table.storage.delete(SinkPaths(SINK).stop)

    assert settled(operation) == "stopping"

    assert read_stop(lake.table.storage, SINK) is not None


def test_sink_that_does_not_stop_in_time_is_stopped_hard_and_then_killed(
    lake: Lake,
    running: Callable[..., Operation],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = running()
    do_stop_sink(lake.row, SINK, by="olaf")
    patience = timedelta(seconds=60 + GRACE_S)

    assert settled(operation, after=patience - timedelta(seconds=2)) == "stopping"
    assert settled(operation, after=patience + timedelta(seconds=2)) == "cancelling"
    stop = read_stop(lake.table.storage, SINK)
    assert stop is not None
    assert stop.kind is StopKind.HARD

    with django_capture_on_commit_callbacks() as sent:
        settled(operation, after=LATER)
    assert len(sent) == 2, "the event, and the job that kills it"
    assert operation.attempts == 1


def test_hard_stop_leaves_the_sink_a_moment_to_end_by_itself(
    lake: Lake,
    running: Callable[..., Operation],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = running()
    do_stop_sink(lake.row, SINK, by="olaf", is_hard=True)

    with django_capture_on_commit_callbacks() as sent:
        assert settled(operation) == "cancelling"
    assert sent == []
    with django_capture_on_commit_callbacks() as sent:
        assert settled(operation, after=LATER) == "cancelling"
    assert len(sent) == 2


def test_graceful_stop_becomes_hard_when_asked_again_and_not_the_other_way(
    lake: Lake, running: Callable[..., Operation]
) -> None:
    operation = running()
    do_stop_sink(lake.row, SINK, by="olaf")
    do_stop_sink(lake.row, SINK, by="ada", is_hard=True)

    with pytest.raises(NotAllowedNow):
        do_stop_sink(lake.row, SINK, by="olaf")

    operation.refresh_from_db()
    stop = read_stop(lake.table.storage, SINK)
    assert stop is not None
    assert (operation.state, stop.kind) == ("cancelling", StopKind.HARD)


def test_sink_that_nobody_took_yet_is_ended_without_a_wait(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)

    do_stop_sink(lake.row, SINK, by="olaf")

    operation.refresh_from_db()
    assert operation.state == "cancelling"


def test_sink_of_a_shell_is_stopped_by_its_file_alone(lake: Lake, admin: User) -> None:
    put_state(lake.table.storage, stuck_state())
    sync_table(lake.row)

    assert do_stop_sink(lake.row, SINK, by="olaf") is None

    assert read_stop(lake.table.storage, SINK) is not None


def test_sink_is_not_cancelled_like_a_write(running: Callable[..., Operation], admin: User) -> None:
    with pytest.raises(NotAllowedNow, match="stop it instead"):
        do_request_cancel(operation=running(), by=admin)


def test_what_does_not_run_is_not_stopped(lake: Lake, admin: User) -> None:
    put_state(lake.table.storage, stopped_state())
    sync_table(lake.row)

    for sink in (SINK, "never-seen"):
        with pytest.raises(NotAllowedNow):
            do_stop_sink(lake.row, sink, by="olaf")

    assert read_stop(lake.table.storage, SINK) is None
