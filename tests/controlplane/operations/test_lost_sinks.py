"""A sink whose process died: told as lost, launched again by a person or by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import NotAllowedNow
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_record_report, do_relaunch_sink, do_stop_sink
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_board import sinks_board
from controlplane.operations.sink_relaunches import relaunch_due, relaunch_lost
from controlplane.operations.tasks import reconcile as reconcile_task
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import (
    OPTIONS,
    launched,
    settled,
    start,
)
from tests.support.sinks import SINK, stuck_state
from workers.clock import SystemClock
from workers.ports import system_ports
from workers.sink.epoch import acquire_epoch
from workers.sink.sink_paths import SinkPaths
from workers.sink.state_file import put_state
from workers.spark.process import ENDING_FILE


def test_sink_whose_process_died_is_lost_and_its_session_ended(
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = start(lake, admin)
    launched(operation)

    with django_capture_on_commit_callbacks() as sent:
        assert settled(operation) == "lost"

    assert len(sent) == 4, "the count, the event, the audit's link, the job that ends its tasks"
    assert "left no word" in operation.message
    assert AuditEvent.objects.filter(what="operation.sink", result="lost").exists()


def test_living_sink_is_left_alone(running: Callable[..., Operation]) -> None:
    assert settled(running(), after=timedelta(days=2)) == "running"


def test_last_word_of_a_sink_counts_though_its_report_was_lost(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    launched(operation)
    ending = {"state": "failed", "message": "kafka_failed: no such topic", "instant": None}
    (Path(run_dir(operation.pk)) / ENDING_FILE).write_text(json.dumps(ending))

    assert settled(operation) == "failed"
    assert operation.message == "kafka_failed: no such topic"


def wrote_its_state(lake: Lake, at: datetime) -> None:
    """As a sink does every two seconds, on whatever machine it runs."""
    put_state(lake.table.storage, stuck_state())
    path = Path(lake.row.location) / SinkPaths(SINK).state
    os.utime(path, (at.timestamp(), at.timestamp()))


def test_sink_on_another_machine_lives_while_its_state_is_told(lake: Lake, admin: User) -> None:
    operation = start(lake, admin)
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": 4711})
    ahead = timedelta(minutes=30)
    wrote_its_state(lake, timezone.now() + ahead)

    assert settled(operation, after=ahead + timedelta(seconds=30)) == "running"
    assert settled(operation, after=ahead + timedelta(seconds=40)) == "lost"


def test_sink_on_another_machine_that_commits_for_long_lives_while_its_heart_beats(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin)
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": 4711})
    wrote_its_state(lake, timezone.now() + timedelta(seconds=1))
    write = lake.begin(
        {"id": "1", "ts": 1, "city": "Oslo"},
        operation_id=str(operation.pk),
        heartbeat_ms=600_000,
    )

    assert settled(operation, after=timedelta(minutes=10)) == "running"
    write.commit()
    assert settled(operation, after=timedelta(minutes=10)) == "lost"


def test_what_the_last_launch_of_a_sink_told_says_nothing_of_one_that_starts(
    lake: Lake, admin: User
) -> None:
    operation = start(lake, admin)
    do_record_report({"operation_id": str(operation.pk), "state": "running", "pid": 4711})
    wrote_its_state(lake, timezone.now() - timedelta(minutes=3))

    assert settled(operation, after=timedelta(minutes=4)) == "running"
    assert settled(operation, after=timedelta(minutes=6)) == "lost"


def test_lost_sink_is_launched_again_with_its_options(lake: Lake, admin: User) -> None:
    before = start(lake, admin, relaunches_max=2)
    launched(before)
    settled(before)

    again = do_relaunch_sink(lake.row, SINK, by=admin, reason="the machine is back")

    assert again.pk != before.pk
    assert again.parameters["job"]["sink_options"] == OPTIONS
    assert again.parameters["relaunches_max"] == 2
    assert again.session_id != before.session_id
    assert AuditEvent.objects.filter(what="sink.relaunch").count() == 1


def test_running_sink_and_one_of_a_shell_are_not_launched_again(
    lake: Lake, admin: User, running: Callable[..., Operation]
) -> None:
    running()

    for sink in (SINK, "of-a-shell"):
        with pytest.raises(NotAllowedNow):
            do_relaunch_sink(lake.row, sink, by=admin)


def lost(lake: Lake, by: User, *, at: datetime, **how: Any) -> Operation:
    operation = start(lake, by, **how)
    launched(operation)
    settled(operation)
    Operation.objects.filter(pk=operation.pk).update(started_at=at, finished_at=at)
    operation.refresh_from_db()
    return operation


def test_lost_sink_comes_back_by_itself_after_growing_pauses_and_not_for_ever(
    lake: Lake, admin: User
) -> None:
    now = timezone.now()
    operation = lost(lake, admin, at=now, relaunches_max=2)
    pauses = []

    for _ in range(2):
        due = relaunch_due(operation)
        assert due is not None
        pauses.append((due - now).total_seconds())
        assert relaunch_lost(due - timedelta(seconds=1)) == []
        (operation,) = relaunch_lost(due + timedelta(seconds=1))
        launched(operation)
        settled(operation)
        Operation.objects.filter(pk=operation.pk).update(started_at=now, finished_at=now)
        operation.refresh_from_db()

    assert pauses == [10, 20]
    assert relaunch_due(operation) is None
    assert relaunch_lost(now + timedelta(minutes=30)) == []


def test_sink_that_ran_for_long_has_all_its_relaunches_again(lake: Lake, admin: User) -> None:
    now = timezone.now()
    operation = lost(lake, admin, at=now, relaunches_max=1, relaunches=1)
    assert relaunch_due(operation) is None

    operation.started_at = now - timedelta(hours=1)

    assert relaunch_due(operation) == now + timedelta(seconds=10)


def test_what_a_person_stopped_or_launched_himself_does_not_come_back(
    lake: Lake, admin: User
) -> None:
    now = timezone.now()
    stopped = start(lake, admin, relaunches_max=3)
    launched(stopped)
    do_stop_sink(lake.row, SINK, by="ada")
    assert settled(stopped) == "lost"
    assert relaunch_due(stopped) is None

    lost(lake, admin, at=now, relaunches_max=3)
    do_relaunch_sink(lake.row, SINK, by=admin)
    assert relaunch_lost(now + timedelta(minutes=5)) == []


def test_sink_that_somebody_else_took_over_does_not_come_back(lake: Lake, admin: User) -> None:
    now = timezone.now()
    lost(lake, admin, at=now, relaunches_max=3)
    state = replace(stuck_state(), updated_ms=int(now.timestamp() * 1000) + 20_000)
    put_state(lake.table.storage, state)
    sync_table(lake.row)

    assert relaunch_lost(now + timedelta(seconds=30)) == []


def test_sink_that_was_fenced_says_so_and_does_not_come_back(lake: Lake, admin: User) -> None:
    operation = start(lake, admin, relaunches_max=3)
    launched(operation)
    acquire_epoch(lake.table.storage, SINK, system_ports(), owner="another/c-2")
    ending = {"state": "fenced", "message": "epoch 4 is held by c-2", "instant": None}
    (Path(run_dir(operation.pk)) / ENDING_FILE).write_text(json.dumps(ending))

    assert settled(operation) == "fenced"
    (alone,) = sinks_board(lake.row)
    put_state(lake.table.storage, replace(stuck_state(), updated_ms=SystemClock().now_ms()))
    sync_table(lake.row)
    (beside,) = sinks_board(lake.row)

    assert (alone.phase, alone.is_running, beside.is_running) == ("fenced", False, True)
    assert relaunch_lost(timezone.now() + timedelta(minutes=20)) == []


def test_sink_of_somebody_who_may_no_longer_do_this_does_not_come_back(
    lake: Lake, operator: User
) -> None:
    now = timezone.now()
    lost(lake, operator, at=now, relaunches_max=3)
    operator.groups.remove(Group.objects.get(name="operator"))

    assert relaunch_lost(now + timedelta(minutes=5)) == []


def test_task_of_beat_relaunches(lake: Lake, admin: User) -> None:
    lost(lake, admin, at=timezone.now() - timedelta(minutes=1), relaunches_max=1)

    reconcile_task()

    assert Operation.objects.filter(kind="sink", state="queued").count() == 1
