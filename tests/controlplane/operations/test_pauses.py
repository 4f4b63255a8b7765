"""Writers are paused for a rollback and resumed behind their last commit."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from controlplane.errors import NotAllowedNow
from controlplane.operations.actions import (
    do_pause_writers,
    do_request_write,
    do_resume_writers,
    do_update_service_setting,
    find_pause,
    find_running_writers,
)
from controlplane.operations.models import Operation, Schedule, ServiceSetting
from tests.controlplane.lake import Lake
from tests.support.schedules import nightly


@pytest.fixture
def stream(lake: Lake, admin: User) -> Operation:
    """A stream, next to a schedule, a service and a write that ends on its own."""
    nightly(lake.row, admin)
    do_update_service_setting(table=lake.row, service="clean", enabled=True, every_s=120, by=admin)
    do_request_write(
        table=lake.row, parameters={"source": {"kind": "csv", "path": "/data/a.csv"}}, by=admin
    )
    source = {"kind": "demo_stream", "stream": "click", "run": 7, "rounds": 3}
    return do_request_write(
        table=lake.row, parameters={"source": source, "stream": "click"}, by=admin
    )


def test_paused_writers_stop_and_are_resumed(lake: Lake, admin: User, stream: Operation) -> None:
    assert find_running_writers(lake.row).names == ["click", "nightly", "clean"]

    do_pause_writers(lake.row, by=admin)

    stream.refresh_from_db()
    assert stream.state == "cancelling"
    assert Operation.objects.filter(state="queued").count() == 1, "a batch ends on its own"
    assert (Schedule.objects.get().is_paused, ServiceSetting.objects.get().is_enabled) == (
        True,
        False,
    )
    assert find_running_writers(lake.row).names == []
    pause = find_pause(lake.row)
    assert pause is not None
    assert pause.still_ending == ["click"]
    with pytest.raises(NotAllowedNow, match="have not stopped yet"):
        do_resume_writers(lake.row, by=admin)
    with pytest.raises(NotAllowedNow, match="paused already"):
        do_pause_writers(lake.row, by=admin)

    Operation.objects.filter(pk=stream.pk).update(state="cancelled")
    do_resume_writers(lake.row, by=admin)

    again = Operation.objects.exclude(pk=stream.pk).get(parameters__job__stream="click")
    assert again.state == "queued"
    assert again.parameters["job"]["source"] == stream.parameters["job"]["source"]
    assert (Schedule.objects.get().is_paused, ServiceSetting.objects.get().is_enabled) == (
        False,
        True,
    )
    assert ServiceSetting.objects.get().every_s == 120
    assert find_pause(lake.row) is None
    with pytest.raises(NotAllowedNow, match="are not paused"):
        do_resume_writers(lake.row, by=admin)


def test_a_pause_that_failed_midway_is_repeated(lake: Lake, admin: User, stream: Operation) -> None:
    do_pause_writers(lake.row, by=admin)
    Operation.objects.filter(pk=stream.pk).update(state="running")  # As if it died before this.
    assert find_running_writers(lake.row).names == ["click"]

    do_pause_writers(lake.row, by=admin)

    stream.refresh_from_db()
    assert stream.state == "cancelling"
    pause = find_pause(lake.row)
    assert pause is not None
    assert pause.names == ["click", "nightly", "clean"]
    Operation.objects.filter(pk=stream.pk).update(state="cancelled")
    do_resume_writers(lake.row, by=admin)
    assert find_running_writers(lake.row).names == ["click", "nightly", "clean"]


def test_nothing_is_resumed_under_a_rollback_or_twice(
    lake: Lake, admin: User, stream: Operation
) -> None:
    do_pause_writers(lake.row, by=admin)
    Operation.objects.filter(pk=stream.pk).update(state="cancelled")
    rollback = Operation.objects.create(table=lake.row, kind="rollback", state="running")

    with pytest.raises(NotAllowedNow, match="a rollback of this table has not ended"):
        do_resume_writers(lake.row, by=admin)

    rollback.delete()
    do_request_write(
        table=lake.row,
        parameters={"source": stream.parameters["job"]["source"], "stream": "click"},
        by=admin,
    )
    do_resume_writers(lake.row, by=admin)
    assert Operation.objects.filter(parameters__job__stream="click").count() == 2
