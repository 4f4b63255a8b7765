"""The demo's buttons ask for ordinary writes, kill what is a demo's driver, and nothing else; a
stream of it that died is started again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.demo.actions import (
    do_kill_demo_writer,
    do_start_demo_conflict,
    do_start_demo_schema_conflict,
    kill_in_the_middle,
)
from controlplane.errors import NotAllowedNow
from controlplane.operations.actions import do_reconcile, do_request_write
from controlplane.operations.models import Operation
from tests.controlplane.drivers import run_dead
from tests.controlplane.lake import OPTIMISTIC, Lake

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
LATER = timedelta(minutes=1)


def start_stream(lake: Lake, by: User) -> Operation:
    parameters = {"source": {"kind": "demo_stream"}}
    return do_request_write(table=lake.row, parameters=parameters, by=by)


def test_the_demo_kills_only_a_driver_that_carries_the_operation_in_its_name(
    lake: Lake, admin: User, driver: Callable[[Operation], int]
) -> None:
    operation = start_stream(lake, admin)
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
    writing = start_stream(lake, admin)
    resting = start_stream(lake, admin)
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
    operation = start_stream(lake, admin)

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
