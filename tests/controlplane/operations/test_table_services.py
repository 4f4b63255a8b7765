"""A table service from plan to proof: asked for by its hash, run by a worker, and mirrored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, KeyReused, NotAllowedNow, PlanVoid
from controlplane.mirror.queries.files import backlog
from controlplane.mirror.queries.table_services import savepoints, service_history
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import (
    do_reconcile,
    permission_of,
    plan_service,
    service_kinds,
)
from controlplane.operations.models import Operation
from controlplane.operations.table_service_proof import ServiceProof, service_proof
from controlplane.tables.access import Permission
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, begun, work
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServiceRequest

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}


@pytest.mark.usefixtures("working")
def test_a_compaction_runs_as_planned_and_the_backlog_is_gone(lake: Lake, operator: User) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    sync_table(lake.row)
    waiting = backlog(lake.row)

    operation = work(ask(lake, "compaction", operator))
    sync_table(lake.row)

    assert operation.state == "succeeded", operation.message
    assert (operation.kind, operation.service) == ("service", "compaction")
    assert (waiting.delta_commits, waiting.log_files > 0) == (4, True)
    left = backlog(lake.row)
    assert (left.delta_commits, left.log_files) == (0, 0)
    assert left.old_files > 0
    done = service_history(lake.row)[0]
    assert (done.service, done.instant) == ("compaction", operation.instant)
    results = AuditEvent.objects.filter(what="service.compaction").values_list("result", "who")
    assert sorted(results) == [("requested", "olaf"), ("succeeded", "olaf")]


@pytest.mark.usefixtures("working")
def test_a_plan_that_changed_before_it_ran_fails_and_says_so(lake: Lake, operator: User) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    operation = ask(lake, "compaction", operator)
    lake.commit(OSLO)

    ended = work(operation)

    assert ended.state == "failed"
    assert ended.message.startswith("plan_changed")


def test_a_plan_that_is_not_the_one_shown_is_void(lake: Lake, operator: User) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    shown = plan_service(lake.row, "compaction", {}, operator).plan_hash
    lake.commit(BERGEN)

    with pytest.raises(PlanVoid):
        ask(lake, "compaction", operator, plan_hash=shown)
    assert ask(lake, "compaction", operator, plan_hash="").parameters["job"]["plan_hash"] is None


def test_what_takes_data_away_needs_an_admin_a_hash_the_name_and_a_reason(
    lake: Lake, operator: User, admin: User
) -> None:
    lake.commit(OSLO)
    registry.get_service("savepoint").run(lake.table, ServiceRequest(by="x"), write_options({}))
    instant = lake.table.timeline().instants[-1].requested_at
    given = {"parameters": {"instant": instant}}

    with pytest.raises(PermissionDenied):
        ask(lake, "delete_savepoint", operator, **given)
    for wrong in ({"typed_name": "other"}, {"typed_name": ""}, {"reason": " "}):
        with pytest.raises(InvalidRequest):
            ask(lake, "delete_savepoint", admin, **given, **wrong)
    with pytest.raises(PlanVoid):
        ask(lake, "delete_savepoint", admin, **given, plan_hash="")
    assert not Operation.objects.exists()


@pytest.mark.usefixtures("working")
def test_a_savepoint_is_made_and_shown_with_who_and_what_came_after(
    lake: Lake, operator: User
) -> None:
    kept = lake.commit(OSLO)
    parameters = {"instant": kept, "comment": "before the <big> move"}

    ended = work(ask(lake, "savepoint", operator, parameters=parameters))
    lake.commit(BERGEN)
    sync_table(lake.row)

    assert ended.state == "succeeded", ended.message
    (savepoint,) = savepoints(lake.row)
    assert (savepoint.instant, savepoint.by, savepoint.comment) == (
        kept,
        "olaf",
        parameters["comment"],
    )
    assert (savepoint.commits_after, savepoint.files) == (1, 1)
    assert ended.progress_done == ended.progress_total > 0


@pytest.mark.slow
@pytest.mark.usefixtures("working")
def test_every_service_that_ran_is_proved_by_the_mirror_and_one_that_did_not_is_not(
    lake: Lake, admin: User
) -> None:
    kept = lake.commit(OSLO)
    story: list[tuple[str, dict[str, str]]] = [
        ("savepoint", {"instant": kept}),
        ("compaction", {}),
        ("restore", {"instant": kept}),
        ("delete_savepoint", {"instant": kept}),
        ("delete", {"predicate": "city = 'Bergen'"}),
        ("clean", {"hoodie.clean.commits.retained": "1"}),
        ("archive", {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}),
    ]
    for service, parameters in story:
        for _ in range(3):
            lake.commit(BERGEN | {"id": "1"})
        if service == "clean":
            work(ask(lake, "compaction", admin))
            lake.commit(OSLO)
            work(ask(lake, "compaction", admin))
            lake.commit(OSLO)
        operation = ask(lake, service, admin, parameters=parameters)
        sync_table(lake.row)
        lake.row.refresh_from_db()
        before = proof_of(operation)

        ended = work(operation)
        sync_table(lake.row)
        lake.row.refresh_from_db()
        after = proof_of(operation)

        assert ended.state == "succeeded", (service, ended.message)
        assert after.is_proved, (service, after)
        assert not before.is_proved, (service, before)


def proof_of(operation: Operation) -> ServiceProof:
    return service_proof(Operation.objects.select_related("table").get(pk=operation.pk))


def test_only_one_of_a_kind_runs_on_a_table(lake: Lake, operator: User) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    ask(lake, "compaction", operator)

    with pytest.raises(NotAllowedNow, match="under way"):
        ask(lake, "compaction", operator)


def test_the_same_key_has_one_effect_and_another_request_with_it_is_refused(
    lake: Lake, operator: User
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)

    first = ask(lake, "compaction", operator, idempotency_key="k")
    again = ask(lake, "compaction", operator, idempotency_key="k")

    assert first.pk == again.pk
    with pytest.raises(KeyReused):
        ask(lake, "savepoint", operator, idempotency_key="k")


@pytest.mark.parametrize(
    ("service", "parameters"),
    [("polish", {}), ("compaction", {"unknown": "1"}), ("savepoint", {"instant": "../x"})],
)
def test_what_the_service_does_not_know_is_refused_before_anything_is_stored(
    lake: Lake, admin: User, service: str, parameters: dict[str, str]
) -> None:
    lake.commit(OSLO)

    with pytest.raises((InvalidRequest, NotAllowedNow)):
        ask(lake, service, admin, parameters=parameters)
    assert not Operation.objects.exists()


def test_nothing_to_do_is_said_instead_of_queued(lake: Lake, operator: User) -> None:
    lake.commit(OSLO)

    with pytest.raises(NotAllowedNow, match="nothing to do"):
        ask(lake, "compaction", operator)


def test_a_silent_worker_is_replaced_and_one_that_lives_is_not(
    lake: Lake,
    operator: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    operation = begun(lake, "compaction", operator)

    do_reconcile(now=timezone.now() + timedelta(seconds=30))
    operation.refresh_from_db()
    assert operation.attempts == 0
    with django_capture_on_commit_callbacks() as callbacks:
        do_reconcile(now=timezone.now() + timedelta(seconds=90))

    operation.refresh_from_db()
    assert operation.attempts == 1
    assert len(callbacks) == 2  # the job, and the event for the pages


def test_every_service_has_a_role_and_an_unknown_one_needs_an_admin() -> None:
    roles = {kind.name: kind.role for kind in service_kinds()}

    assert set(roles) == set(registry.list_service_names())
    assert roles["compaction"] == roles["clean"] == roles["savepoint"] == "operator"
    assert roles["delete_savepoint"] == "admin"
    assert permission_of("anything else") is Permission.ADMINISTER
