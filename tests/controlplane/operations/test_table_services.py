"""A table service from plan to proof: asked for by its hash, run by a worker, and mirrored."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import TestCase
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from pytest_django.live_server_helper import LiveServer

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid
from controlplane.mirror.sync import sync_table
from controlplane.mirror.views_files import backlog
from controlplane.mirror.views_services import pending_plans, savepoints, service_history
from controlplane.operations.models import Operation
from controlplane.operations.moves import move
from controlplane.operations.selectors import operation_detail
from controlplane.operations.service_proof import ServiceProof, service_proof
from controlplane.operations.services import (
    permission_of,
    plan_service,
    reconcile,
    record_report,
    request_cancel,
    request_service,
    service_kinds,
)
from controlplane.operations.states import OperationState
from controlplane.tables.access import Permission
from tests.controlplane.lake import Lake
from workers.config import write_options
from workers.lakehouse import LakehouseTable
from workers.services import local_runner, registry
from workers.services.rewrite import rewrite_group
from workers.services.service import ServiceRequest
from workers.tasks import run_service

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}


def ask(lake: Lake, service: str, by: User, **changed: Any) -> Operation:
    parameters = changed.pop("parameters", {})
    asked = {
        "plan_hash": plan_service(lake.row, service, parameters, by).plan_hash,
        "reason": "tidy up",
        "typed_name": "trips",
    } | changed
    return request_service(lake.row, service, parameters, by=by, **asked)


@pytest.fixture
def working(
    root: Path, live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker has: roots, a token, and the address that it reports to."""
    settings.SLUICE_REPORT_URL = f"{live_server.url}/api/v1/reports/operations/"
    monkeypatch.setenv("SLUICE_WORKER_TOKEN", settings.SLUICE_WORKER_TOKEN)
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(root))


def work(operation: Operation, **changed: Any) -> Operation:
    run_service.apply(args=[operation.parameters["job"] | changed]).get()
    operation.refresh_from_db()
    return operation


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
def test_a_job_that_comes_again_after_it_was_done_succeeds_with_nothing_left(
    lake: Lake, operator: User
) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    operation = work(ask(lake, "compaction", operator))
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")


@pytest.mark.usefixtures("working")
def test_a_job_that_comes_again_carries_its_own_pending_plan_out(
    lake: Lake, operator: User
) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    operation = ask(lake, "compaction", operator)
    # As far as a worker came that was killed right after its plan was durable.
    registry.service("compaction").run(
        lake.table,
        ServiceRequest(by="olaf", parameters={"schedule_only": "true"}),
        write_options({}),
    )
    sync_table(lake.row)
    planned = pending_plans(lake.row)

    ended = work(operation, attempt=1)

    assert ended.state == "succeeded", ended.message
    assert [one.action for one in planned] == ["compaction"]
    assert planned[0].file_groups == 1
    assert ended.instant == planned[0].instant


@pytest.mark.usefixtures("working")
def test_a_savepoint_that_is_sent_again_has_succeeded_and_stays_the_only_one(
    lake: Lake, operator: User
) -> None:
    kept = lake.commit(OSLO)
    operation = work(ask(lake, "savepoint", operator))
    lake.commit(BERGEN)
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)
    sync_table(lake.row)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")
    assert [one.instant for one in savepoints(lake.row)] == [kept]


@pytest.mark.usefixtures("working")
def test_a_savepoint_that_was_never_made_and_cannot_be_any_more_fails(
    lake: Lake, operator: User
) -> None:
    lake.commit(OSLO)
    gone = lake.commit(BERGEN)
    operation = ask(lake, "savepoint", operator, parameters={"instant": gone})
    LakehouseTable(lake.table).rollback(gone, dry_run=False)

    again = work(operation, attempt=1)

    assert again.state == "failed"
    assert again.message.startswith("plan_changed")


@pytest.mark.usefixtures("working")
def test_an_overwrite_that_is_sent_again_replaces_once(
    lake: Lake, admin: User, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(OSLO)
    path = source(tmp_path, settings, monkeypatch)
    operation = work(ask(lake, "insert_overwrite_table", admin, parameters={"path": path}))
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")
    assert len(lake.table.timeline().completed_writes()) == 3  # with the one that made the table
    assert LakehouseTable(lake.table).read().column("city").to_pylist() == ["Turku"]


def source(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with one row, below a source root."""
    folder = tmp_path / "sources"
    folder.mkdir()
    settings.SLUICE_SOURCE_ROOTS = (str(folder),)
    monkeypatch.setenv("SLUICE_SOURCE_ROOTS", str(folder))
    (folder / "new.csv").write_text("id,ts,city\n7,9,Turku\n")
    return str(folder / "new.csv")


def test_a_file_outside_the_source_roots_is_not_opened(
    lake: Lake, admin: User, tmp_path: Path
) -> None:
    lake.commit(OSLO)
    (tmp_path / "secret.csv").write_text("id,ts,city\n7,9,Turku\n")

    with pytest.raises(InvalidRequest, match="outside the configured roots"):
        ask(lake, "insert_overwrite", admin, parameters={"path": f"{tmp_path}/secret.csv"})


@pytest.mark.usefixtures("working")
def test_a_service_that_runs_stops_between_two_file_groups_and_its_plan_is_taken_up_again(
    lake: Lake, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wide(lake)
    operation = ask(lake, "compaction", operator)

    def cancel_after_the_first(*given: Any) -> Any:
        written = rewrite_group(*given)
        operation.refresh_from_db()
        if operation.state != "cancelling":
            move(operation.pk, OperationState.RUNNING)
            operation.refresh_from_db()
            with TestCase.captureOnCommitCallbacks(execute=True):
                request_cancel(operation=operation, by=operator, reason="not now")
        return written

    monkeypatch.setattr(local_runner, "rewrite_group", cancel_after_the_first)
    ended = work(operation)
    monkeypatch.undo()
    sync_table(lake.row)
    (plan,) = pending_plans(lake.row)

    assert ended.state == "cancelled"
    assert "its plan stays pending" in ended.message
    assert 0 < ended.progress_done < ended.progress_total
    assert ended.instant == plan.instant
    assert table.read().num_rows == ROWS
    outcome = registry.service("compaction").run(
        lake.table, ServiceRequest(by="olaf"), write_options({})
    )
    assert outcome.instant == plan.instant
    assert table.read().num_rows == ROWS


ROWS = 40


def wide(lake: Lake) -> LakehouseTable:
    """The table with several file groups that all have logs."""
    rows = [OSLO | {"id": str(number), "ts": number} for number in range(ROWS)]
    for _ in range(2):
        lake.commit(*rows)
    return LakehouseTable(lake.table)


@pytest.mark.usefixtures("working")
def test_a_service_that_waits_is_cancelled_at_once_and_never_begins(
    lake: Lake,
    operator: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    operation = ask(lake, "compaction", operator)

    with django_capture_on_commit_callbacks(execute=True):
        request_cancel(operation=operation, by=operator)
    ended = work(operation)

    assert (ended.state, ended.message) == ("cancelled", "cancelled before it began")
    assert not list(lake.table.timeline().pending())


def test_a_restore_that_has_begun_is_not_cancelled(lake: Lake, admin: User) -> None:
    kept = lake.commit(OSLO)
    registry.service("savepoint").run(lake.table, ServiceRequest(by="x"), write_options({}))
    lake.commit(BERGEN)
    operation = ask(lake, "restore", admin, parameters={"instant": kept})
    record_report({"operation_id": str(operation.pk), "state": "running", "message": "begins"})
    operation.refresh_from_db()

    with pytest.raises(NotAllowedNow, match="carried to its end"):
        request_cancel(operation=operation, by=admin)


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
    registry.service("savepoint").run(lake.table, ServiceRequest(by="x"), write_options({}))
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
    asked = {"instant": kept, "comment": "before the <big> move"}

    ended = work(ask(lake, "savepoint", operator, parameters=asked))
    lake.commit(BERGEN)
    sync_table(lake.row)

    assert ended.state == "succeeded", ended.message
    (found,) = savepoints(lake.row)
    assert (found.instant, found.by, found.comment) == (kept, "olaf", asked["comment"])
    assert (found.commits_after, found.files) == (1, 1)
    assert ended.progress_done == ended.progress_total > 0


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
        asked = ask(lake, service, admin, parameters=parameters)
        sync_table(lake.row)
        lake.row.refresh_from_db()
        before = proof_of(lake, asked)

        ended = work(asked)
        sync_table(lake.row)
        lake.row.refresh_from_db()
        after = proof_of(lake, asked)

        assert ended.state == "succeeded", (service, ended.message)
        assert after.is_proved, (service, after)
        assert not before.is_proved, (service, before)


def proof_of(lake: Lake, operation: Operation) -> ServiceProof:
    detail = operation_detail(operation.pk)
    assert detail is not None
    return service_proof(lake.row, detail)


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
    with pytest.raises(InvalidRequest):
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
    operation = ask(lake, "compaction", operator)
    record_report({"operation_id": str(operation.pk), "state": "running", "message": "begins"})

    reconcile(now=timezone.now() + timedelta(seconds=30))
    operation.refresh_from_db()
    assert operation.attempts == 0
    with django_capture_on_commit_callbacks() as callbacks:
        reconcile(now=timezone.now() + timedelta(seconds=90))

    operation.refresh_from_db()
    assert operation.attempts == 1
    assert len(callbacks) == 2  # the job, and the event for the pages


def test_every_service_has_a_role_and_an_unknown_one_needs_an_admin() -> None:
    roles = {kind.name: kind.role for kind in service_kinds()}

    assert set(roles) == set(registry.service_names())
    assert roles["compaction"] == roles["clean"] == roles["savepoint"] == "operator"
    assert roles["delete_savepoint"] == "admin"
    assert permission_of("anything else") is Permission.ADMINISTER
