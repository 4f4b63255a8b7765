"""Run directories are forgotten by age and by number, operations by age, never while they are open
or in use.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from controlplane.accounts.models import Token
from controlplane.accounts.tokens import create_token
from controlplane.batches import delete_in_batches
from controlplane.operations import retention, tasks
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Approval, LogLine, Operation, Schedule, ScheduleRun
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN
from controlplane.uploads.models import Upload, UploadUse
from tests.controlplane.lake import Lake

DAY_S = 86_400


def folder(operation_id: uuid.UUID, *, days_old: float) -> Path:
    path = Path(run_dir(operation_id))
    path.mkdir(parents=True)
    (path / "driver.log").write_text("a line\n")
    at = timezone.now().timestamp() - days_old * DAY_S
    os.utime(path, (at, at))
    return path


def test_old_ones_go_and_those_of_open_operations_stay(lake: Lake, admin: User) -> None:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    still_open = do_request_write(table=lake.row, parameters=parameters, by=admin)
    ended = do_request_write(table=lake.row, parameters=parameters, by=admin)
    Operation.objects.filter(pk=ended.pk).update(state="succeeded")
    kept = [folder(still_open.pk, days_old=30), folder(uuid.uuid4(), days_old=6)]
    gone = [folder(ended.pk, days_old=8), folder(uuid.uuid4(), days_old=8)]

    assert retention.forget_run_dirs() == 2

    assert all(path.is_dir() for path in kept)
    assert not any(path.exists() for path in gone)


def test_the_oldest_above_the_limit_go(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT_MAX", 4)
    paths = [folder(uuid.uuid4(), days_old=age / 24) for age in range(6)]

    assert retention.forget_run_dirs() == 2

    assert [path.exists() for path in paths] == [True] * 4 + [False] * 2


def test_what_is_not_named_like_an_operation_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    foreign = folder(uuid.uuid4(), days_old=30).parent / "notes"
    foreign.mkdir()
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    link = foreign.parent / str(uuid.uuid4())
    link.symlink_to(outside)
    os.utime(foreign, (0, 0))

    assert retention.forget_run_dirs() == 1

    assert foreign.is_dir()
    assert link.is_symlink()
    assert outside.is_dir()


@pytest.fixture
def old(lake: Lake, admin: User) -> Callable[..., Operation]:
    """Make an operation that ended two years ago."""
    return lambda **how: make_old(
        Operation.objects.create(table=lake.row, requested_by=admin, **how)
    )


def make_old(operation: Operation) -> Operation:
    two_years_ago = timezone.now() - timedelta(days=730)
    how = {"state": "succeeded"} if operation.state == "queued" else {}
    Operation.objects.filter(pk=operation.pk).update(
        requested_at=two_years_ago, changed_at=two_years_ago, **how
    )
    return operation


def is_kept(operation: Operation) -> bool:
    return Operation.objects.filter(pk=operation.pk).exists()


def test_operations_go_after_a_year_with_their_logs_and_approvals(
    old: Callable[..., Operation], lake: Lake, admin: User
) -> None:
    ended = old(kind="write")
    Approval.objects.create(operation=ended, action="write", expires_at=timezone.now())
    LogLine.objects.create(operation=ended, number=1, at=timezone.now(), level=20)
    repeated = Operation.objects.create(
        table=lake.row, kind="write", requested_by=admin, state="failed", again_of=ended
    )

    tasks.forget()

    assert not is_kept(ended)
    assert not Approval.objects.exists()
    assert not LogLine.objects.exists()
    repeated.refresh_from_db()
    assert repeated.again_of is None


@pytest.mark.parametrize("state", sorted(OPEN))
def test_open_operation_stays_however_old_it_is(
    old: Callable[..., Operation], lake: Lake, admin: User, state: str
) -> None:
    still_open = old(kind="write", state=state)
    Operation.objects.filter(pk=still_open.pk).update(state=state)
    Operation.objects.create(table=lake.row, kind="write", requested_by=admin)

    retention.forget_operations(now=timezone.now())

    assert is_kept(still_open)


def test_newest_of_each_kind_stays_and_so_does_what_others_refer_to(
    old: Callable[..., Operation], lake: Lake, admin: User
) -> None:
    last_clean = old(kind="service", service="clean")
    last_run_of_sink = old(kind="sink", sink_id="orders")
    awaited, ran, loading, forgotten, newest = (old(kind="write") for _ in range(5))
    Operation.objects.filter(pk=newest.pk).update(requested_at=timezone.now())
    schedule = Schedule.objects.create(
        table=lake.row, name="after", kind="service", service="clean", trigger="after",
        after_operation=awaited, begins_at=timezone.now(), changed_at=timezone.now(),
    )  # fmt: skip
    ScheduleRun.objects.create(
        schedule=schedule, turn="1", due_at=timezone.now(), outcome="requested", operation=ran
    )
    upload = Upload.objects.create(owner=admin, name="a.csv", bytes=1)
    UploadUse.objects.create(upload=upload, operation=loading.pk)

    retention.forget_operations(now=timezone.now())

    in_use = (last_clean, last_run_of_sink, awaited, ran, loading, newest)
    assert all(map(is_kept, in_use))
    assert not is_kept(forgotten)


def test_operations_stay_for_ever_if_the_node_says_so(
    old: Callable[..., Operation], settings: Settings
) -> None:
    operations = [old(kind="write"), old(kind="write")]
    settings.SLUICE_OPERATION_DAYS = 0

    assert retention.forget_operations(now=timezone.now()) == 0

    assert all(map(is_kept, operations))


def test_each_transaction_of_pruning_is_bounded(old: Callable[..., Operation]) -> None:
    for _ in range(7):
        old(kind="write")
    rows = Operation.objects.filter(kind="write")

    with CaptureQueriesContext(connection) as captured:
        count = delete_in_batches(rows, batch_rows=3)

    deletes = [
        q["sql"] for q in captured if q["sql"].startswith('DELETE FROM "operations_operation"')
    ]
    assert (count, len(deletes)) == (7, 3)


@pytest.mark.django_db(transaction=True)
def test_row_that_comes_into_use_while_others_are_deleted_stays(
    old: Callable[..., Operation], lake: Lake
) -> None:
    operations = [old(kind="write") for _ in range(3)]
    rows = Operation.objects.filter(kind="write", state="succeeded")
    selected = list[str]()

    def open_one_again(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if sql.startswith("SELECT") and not selected:
            selected.append(sql)
            Operation.objects.filter(pk=operations[1].pk).update(state="running")
        return answer

    with connection.execute_wrapper(open_one_again):
        assert delete_in_batches(rows) == 2

    assert is_kept(operations[1])


def test_expired_sessions_and_tokens_go_and_valid_ones_stay(admin: User) -> None:
    now = timezone.now()
    for key, ends_in in (("old", -1), ("valid", 1)):
        Session.objects.create(
            session_key=key, session_data="", expire_date=now + timedelta(hours=ends_in)
        )
    endless, _ = create_token(admin, scope="read")
    just_expired, _ = create_token(admin, scope="read", valid_for=timedelta(days=-1))
    create_token(admin, scope="read", valid_for=timedelta(days=-91))

    tasks.forget()

    assert list(Session.objects.values_list("session_key", flat=True)) == ["valid"]
    assert {token.pk for token in Token.objects.all()} == {endless.pk, just_expired.pk}
