"""A rollback is planned, confirmed by name and hash, asked for once, and proven by storage."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, KeyReused, NotAllowedNow, PlanVoid
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import (
    do_reconcile,
    do_record_report,
    plan_rollback,
)
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask_rollback as ask
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}


def test_the_plan_names_exactly_the_files_of_the_instant(lake: Lake, admin: User) -> None:
    lake.commit(OSLO)
    newest = lake.commit(BERGEN)
    sync_table(lake.row)

    view = plan_rollback(lake.row, newest)

    assert view.is_executable
    assert view.rows == 1
    assert [newest in file.path for file in view.files] == [True]
    assert view.bytes_total == sum(file.bytes for file in view.files) > 0
    assert view.plan["file_count"] == len(view.files)


def test_an_older_instant_is_blocked_and_the_plan_names_what_must_go_first(
    lake: Lake, admin: User
) -> None:
    older, newer = lake.commit(OSLO), lake.commit(BERGEN)

    view = plan_rollback(lake.row, older)

    assert not view.is_executable
    assert newer in " ".join(view.blockers)
    with pytest.raises(NotAllowedNow):
        ask(lake, older, admin)


def test_a_request_is_a_row_an_audit_entry_and_a_job_with_the_hash(lake: Lake, admin: User) -> None:
    instant = lake.commit(OSLO)

    operation = ask(lake, instant, admin)

    assert (operation.state, operation.instant) == ("queued", instant)
    assert operation.parameters["job"]["plan_hash"] == operation.plan_hash
    event = AuditEvent.objects.get(what="operation.rollback")
    assert (event.who, event.reason, event.plan_hash, event.result) == (
        "ada",
        "wrong file",
        operation.plan_hash,
        "requested",
    )


@pytest.mark.parametrize(
    "changed", [{"typed_name": "other"}, {"reason": "  "}, {"reason": "x" * 501}]
)
def test_a_wrong_name_or_reason_changes_nothing(
    lake: Lake, admin: User, changed: dict[str, str]
) -> None:
    instant = lake.commit(OSLO)

    with pytest.raises(InvalidRequest):
        ask(lake, instant, admin, **changed)

    assert not Operation.objects.exists()
    assert not AuditEvent.objects.filter(what="operation.rollback").exists()


def test_a_plan_that_is_not_the_one_shown_is_void(lake: Lake, admin: User) -> None:
    instant = lake.commit(OSLO)
    shown = plan_rollback(lake.row, instant).plan_hash
    lake.commit(BERGEN)

    with pytest.raises(PlanVoid):
        ask(lake, instant, admin, plan_hash=shown)


def test_the_same_key_has_one_effect_and_another_request_with_it_is_refused(
    lake: Lake, admin: User
) -> None:
    older, newer = lake.commit(OSLO), lake.commit(BERGEN)

    first = ask(lake, newer, admin, idempotency_key="k1")
    again = ask(lake, newer, admin, idempotency_key="k1")

    assert first.pk == again.pk
    assert Operation.objects.count() == 1
    with pytest.raises(KeyReused):
        ask(lake, older, admin, idempotency_key="k1")


def test_two_people_cannot_roll_the_same_instant_back_at_once(lake: Lake, admin: User) -> None:
    instant = lake.commit(OSLO)
    ask(lake, instant, admin)

    with pytest.raises(NotAllowedNow):
        ask(lake, instant, admin)

    assert Operation.objects.count() == 1


def test_a_rollback_whose_report_was_lost_is_settled_by_storage(lake: Lake, admin: User) -> None:
    instant = lake.commit(OSLO)
    operation = ask(lake, instant, admin)
    do_record_report({"operation_id": str(operation.pk), "state": "running"})
    rollback(
        lake.table,
        RollbackRequest(instant, by="ada", reason="x", expected_plan_hash=operation.plan_hash),
        write_options({}),
    )
    sync_table(lake.row)

    do_reconcile(now=timezone.now() + timedelta(minutes=1))

    operation.refresh_from_db()
    assert operation.state == "succeeded"
    assert operation.finished_at is not None
    ended = AuditEvent.objects.filter(what="operation.rollback").order_by("id").last()
    assert ended is not None
    assert ended.result == "succeeded"


def test_a_job_that_the_queue_lost_is_sent_again(
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    operation = ask(lake, lake.commit(OSLO), admin)

    with django_capture_on_commit_callbacks() as callbacks:
        do_reconcile(now=timezone.now() + timedelta(minutes=1))

    operation.refresh_from_db()
    assert operation.attempts == 1
    assert operation.state == "queued"
    assert len(callbacks) == 2  # the job, and the event for the pages


def test_a_job_whose_requester_lost_the_role_is_not_sent_again(lake: Lake, admin: User) -> None:
    operation = ask(lake, lake.commit(OSLO), admin)
    admin.groups.clear()

    do_reconcile(now=timezone.now() + timedelta(minutes=1))

    operation.refresh_from_db()
    assert operation.state == "refused"
    assert "no longer authorized" in operation.message
