"""Services by schedule: off until turned on, one at a time, only when there is something to do."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.operations.schedules import (
    do_update_service_setting,
    run_due_services,
    service_settings,
)
from tests.controlplane.lake import Lake

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def turn_on(lake: Lake, by: User, trigger_commits: int = 2) -> None:
    do_update_service_setting(
        table=lake.row,
        service="compaction",
        enabled=True,
        every_s=60,
        trigger_commits=trigger_commits,
        by=by,
    )


def due(lake: Lake, at: datetime) -> list[str]:
    sync_table(lake.row)
    return [operation.service for operation in run_due_services(now=at)]


def test_everything_is_off_at_first(lake: Lake) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)

    assert not any(one.enabled for one in service_settings(lake.row))
    assert due(lake, timezone.now()) == []


def test_a_service_waits_for_its_commits_its_interval_and_its_last_run(
    lake: Lake, admin: User
) -> None:
    turn_on(lake, admin)
    now = timezone.now()
    lake.commit(OSLO)
    assert due(lake, now) == []

    lake.commit(OSLO)
    assert due(lake, now) == ["compaction"]
    later = now + timedelta(seconds=90)
    assert due(lake, later) == []  # The first is still open.

    Operation.objects.update(state="failed")
    assert due(lake, now + timedelta(seconds=30)) == []
    assert due(lake, later) == ["compaction"]


def test_what_a_schedule_started_says_so_and_is_sent_again_like_others(
    lake: Lake, admin: User
) -> None:
    from controlplane.operations.actions import do_reconcile

    turn_on(lake, admin)
    lake.commit(OSLO)
    lake.commit(OSLO)
    now = timezone.now()
    due(lake, now)
    do_reconcile(now=now + timedelta(minutes=2))

    operation = Operation.objects.get()
    assert (operation.state, operation.attempts, operation.requested_by) == ("queued", 1, None)
    assert AuditEvent.objects.get(what="service.compaction").who == "schedule"


def test_nothing_is_queued_when_the_plan_is_empty(lake: Lake, admin: User) -> None:
    turn_on(lake, admin, trigger_commits=0)
    lake.commit(OSLO)

    assert due(lake, timezone.now()) == []
    setting = next(one for one in service_settings(lake.row) if one.service == "compaction")
    assert setting.last_run_at is not None
    assert setting.next_due_at == setting.last_run_at + timedelta(seconds=60)


@pytest.mark.parametrize("service", ["delete_savepoint", "savepoint", "restore", "polish"])
def test_what_takes_data_away_is_never_scheduled(lake: Lake, admin: User, service: str) -> None:
    with pytest.raises(InvalidRequest):
        do_update_service_setting(table=lake.row, service=service, enabled=True, by=admin)


def test_parameters_are_checked_when_they_are_set(lake: Lake, admin: User) -> None:
    with pytest.raises(InvalidRequest, match="unknown parameter"):
        do_update_service_setting(
            table=lake.row, service="compaction", enabled=True, parameters={"x": "1"}, by=admin
        )
