"""Threat T14: whether somebody still may do what waits is asked again as its worker begins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.operations.actions import do_request_write, do_schedule_service
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, sent_jobs
from workers.tasks import authorization, launch_write, run_service

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
"""What is taken away from `pia`, who asked for it."""


@pytest.fixture
def pia(admin: User) -> User:
    return User.objects.create_user("pia")


@pytest.fixture
def granted(pia: User, lake: Lake) -> Grant:
    return Grant.objects.create(user=pia, table=lake.row, role="operator")


@pytest.fixture
def queued(
    pia: User, granted: Grant, lake: Lake,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> tuple[Operation, dict[str, Any]]:  # fmt: skip
    """A compaction that waits, and its message as the worker will get it."""
    for _ in range(3):
        lake.commit(OSLO)
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        operation = ask(lake, "compaction", pia)
    [(_, message)] = sent_jobs()
    return operation, message


def timeline_files(lake: Lake) -> list[str]:
    return sorted(file.name for file in Path(lake.row.location, ".hoodie", "timeline").iterdir())


def take_the_grant(user: User) -> None:
    Grant.objects.filter(user=user).delete()


def lessen_it(user: User) -> None:
    Grant.objects.filter(user=user).update(role="viewer")


def lock_out(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete_the_user(user: User) -> None:
    user.delete()


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("loss", [take_the_grant, lessen_it, lock_out, delete_the_user])
def test_job_of_who_may_no_longer_is_refused_as_it_begins(
    loss: Callable[[User], None], queued: tuple[Operation, dict[str, Any]], pia: User, lake: Lake
) -> None:
    operation, message = queued
    before = timeline_files(lake)
    loss(pia)

    run_service.apply(args=[message]).get()

    operation.refresh_from_db()
    assert operation.state == "refused"
    assert "is no longer authorized: this requires the operator role on trips" in operation.message
    assert timeline_files(lake) == before
    ended = AuditEvent.objects.filter(what="service.compaction", result="refused").get()
    assert ended.details["operation"] == str(operation.pk)


@pytest.mark.usefixtures("working")
def test_job_of_who_still_may_begins(queued: tuple[Operation, dict[str, Any]]) -> None:
    operation, message = queued

    run_service.apply(args=[message]).get()

    operation.refresh_from_db()
    assert operation.state == "succeeded", operation.message


@pytest.mark.usefixtures("working")
def test_job_that_was_refused_once_stays_so_when_it_comes_again(
    queued: tuple[Operation, dict[str, Any]], pia: User, lake: Lake
) -> None:
    operation, message = queued
    take_the_grant(pia)
    run_service.apply(args=[message]).get()
    Grant.objects.create(user=pia, table=lake.row, role="admin")

    run_service.apply(args=[message | {"attempt": 1}]).get()

    operation.refresh_from_db()
    assert operation.state == "refused"


@pytest.mark.usefixtures("working")
def test_job_of_a_schedule_asks_nobody(
    lake: Lake, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        operation = do_schedule_service(lake.row, "compaction", {})
    [(_, message)] = sent_jobs()
    assert operation is not None

    run_service.apply(args=[message]).get()

    operation.refresh_from_db()
    assert message["asks_leave"] is False
    assert operation.state == "succeeded", operation.message


def test_job_waits_while_nobody_answers(
    queued: tuple[Operation, dict[str, Any]], lake: Lake, settings: Settings,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(authorization, "_TRIES", 2)
    monkeypatch.setattr(authorization, "_TRY_AGAIN_S", 0.01)
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", lake.row.location.rpartition("/")[0])
    operation, message = queued
    before = timeline_files(lake)

    with caplog.at_level(logging.WARNING):
        run_service.apply(args=[message | {"report_url": "http://127.0.0.1:9/"}]).get()
        run_service.apply(args=[message | {"report_url": None}]).get()

    operation.refresh_from_db()
    assert operation.state == "queued"
    assert timeline_files(lake) == before
    assert "no leave was given" in caplog.text


@pytest.mark.usefixtures("working")
def test_driver_is_not_launched_for_who_may_no_longer(
    pia: User, granted: Grant, lake: Lake, settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
        operation = do_request_write(table=lake.row, parameters=parameters, by=pia)
    [(_, message)] = sent_jobs()
    take_the_grant(pia)

    launch_write.apply(args=[message]).get()

    operation.refresh_from_db()
    assert (operation.state, operation.pid) == ("refused", None)


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_jobs_of_every_kind_ask(kind: Any) -> None:
    assert "asks_leave" in {field.name for field in fields(cast(Any, kind.job))}
