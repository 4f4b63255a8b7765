"""One rule for all kinds: an operation whose worker is killed at any moment is over within a minute
and has its whole effect, although nobody hears a report and the queue loses what the worker had.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_reconcile
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.operations.table_service_proof import service_proof
from controlplane.operations.verification import rollback_proof
from controlplane.tables.actions import do_register_table
from controlplane.writers.models import Report
from tests.controlplane.lake import Lake
from tests.controlplane.prepared_tables import (
    OSLO,
    SERVICES,
    Prepared,
    fresh_lake,
    prepare,
    rows_of,
)
from tests.controlplane.service_jobs import ask, ask_rollback, sent_jobs
from tests.support.crash_ports import START_MS, StillClock
from tests.support.task_worker import TaskWorker, task_worker
from workers.clock import SystemClock
from workers.reporting.run_lock import hold_run_lock, is_running, was_started

pytestmark = pytest.mark.process

SEED = int(os.environ["SLUICE_TEST_SEED"])
"""Chosen in `tests/conftest.py`, and printed at the head of a run."""
KINDS = ("rollback", *SERVICES)
_LASTS_S = 0.25
"""Killed at a random moment of so long, early ones more often, since many jobs are over in a tenth
of it; what is over by then has ended without a word.
"""
_EVERY_S = 5


@pytest.fixture(scope="module")
def drop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drop")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, drop: Path) -> Iterator[TaskWorker]:
    root = str(tmp_path_factory.getbasetemp())
    environment = {"SLUICE_TABLE_ROOTS": root, "SLUICE_SOURCE_ROOTS": str(drop)}
    with task_worker(environment) as started:
        yield started


@pytest.fixture(autouse=True)
def _nobody_hears(settings: Settings) -> None:
    """Web is down: every report is lost. The queue is without what other tests sent."""
    settings.SLUICE_REPORT_URL = None
    sent_jobs()


SAMPLED = random.Random(SEED).sample(KINDS, 4)
"""The others have their turn under other seeds; `make soak` tries all of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [*SAMPLED, *(pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS)]
)
def test_operation_is_settled_within_a_minute_after_its_worker_was_killed(
    kind: str,
    root: Path,
    admin: User,
    worker: TaskWorker,
    drop: Path,
    settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    chance = random.Random(f"{SEED} {kind}")
    settings.SLUICE_SOURCE_ROOTS = (str(drop),)
    folder = drop / root.parent.name
    folder.mkdir()
    lake = registered(fresh_lake(root / "trips", kind), admin)
    prepared = prepare(lake, kind, folder)
    with django_capture_on_commit_callbacks(execute=True):
        operation = requested(lake, prepared, admin)
    queue = sent_jobs()
    assert len(queue) == 1
    worker.carry_out(*queue[0], killed_after_s=chance.random() ** 3 * _LASTS_S)
    deaths = 1

    for after_s in range(_EVERY_S, 61, _EVERY_S):
        with django_capture_on_commit_callbacks(execute=True):
            do_reconcile(now=timezone.now() + timedelta(seconds=after_s))
        for job in sent_jobs():
            killed_after_s = chance.random() ** 3 * _LASTS_S if deaths < 2 else None
            worker.carry_out(*job, killed_after_s=killed_after_s)
            deaths += 1
        operation.refresh_from_db()
        if operation.state == OperationState.SUCCEEDED.value:
            break

    assert operation.state == "succeeded", (SEED, operation.state, operation.message)
    assert is_proved(lake, operation), SEED
    assert rows_of(Path(lake.row.location)) == prepared.rows_after, SEED
    assert not Report.objects.exists()


def registered(lake: Lake, by: User) -> Lake:
    location = lake.row.location
    return Lake(lake.table, do_register_table(location=location, slug="trips", name="trips", by=by))


def requested(lake: Lake, prepared: Prepared, by: User) -> Operation:
    sync_table(lake.row)
    if prepared.kind == "rollback":
        return ask_rollback(lake, prepared.newest, by)
    return ask(lake, prepared.kind, by, parameters=prepared.parameters)


def is_proved(lake: Lake, operation: Operation) -> bool:
    if operation.kind == "rollback":
        return rollback_proof(lake.row, operation.instant, operation.plan).is_proved
    return service_proof(operation).is_proved


def test_worker_that_is_at_it_is_left_alone_however_long_it_says_nothing(
    lake: Lake, admin: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    operation = ask_rollback(lake, lake.commit(OSLO), admin)
    folder = operation.parameters["job"]["run_dir"]
    later = timezone.now() + timedelta(minutes=10)

    with hold_run_lock(folder, SystemClock()) as is_mine:
        assert is_mine
        do_reconcile(now=later)
        with django_capture_on_commit_callbacks() as sent:
            do_reconcile(now=later)

    operation.refresh_from_db()
    assert (operation.state, operation.attempts, sent) == ("running", 0, [])


def test_job_of_one_run_directory_is_at_one_hand_at_a_time(tmp_path: Path) -> None:
    folder, clock = tmp_path / "run", SystemClock()
    assert not was_started(folder)
    assert not is_running(folder)

    with hold_run_lock(str(folder), clock) as first:
        still = StillClock()
        with hold_run_lock(str(folder), still) as second:
            assert (first, second) == (True, False)
        assert still.now_ms() - START_MS <= 1_000, "the second worker gives up after a second"
        assert is_running(folder)

    assert was_started(folder)
    assert not is_running(folder)
    with hold_run_lock(str(folder), clock) as again:
        assert again
