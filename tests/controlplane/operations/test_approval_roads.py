"""Approvals in a shell of this machine and over the API."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.operations.approvals.deciding import Decider
from controlplane.operations.approvals.queries import approval_rows
from controlplane.operations.models import Operation
from tests.controlplane.approvals import approve, needs_approval
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask_rollback as ask
from tests.controlplane.service_jobs import sent_jobs
from workers.tasks import rollback as rollback_task


@pytest.fixture
def bea(db: None) -> User:
    """The second admin."""
    user = User.objects.create_user("bea")
    user.groups.add(Group.objects.get(name="admin"))
    return user


@pytest.fixture
def newest(lake: Lake) -> str:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sent_jobs()
    return lake.commit({"id": "2", "ts": 1, "city": "Bergen"})


@pytest.mark.usefixtures("working")
def test_what_a_shell_asks_for_a_person_approves_of_and_a_worker_runs(
    lake: Lake, newest: str, bea: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    needs_approval("rollback")
    with pytest.raises(CommandError, match="requires an approval by another user"):
        call_command("rollback", "trips", newest, "--yes", stdout=StringIO())
    operation = Operation.objects.get()
    words = ["approval", "approve", str(operation.pk), "--plan-hash", operation.plan_hash]
    with pytest.raises(CommandError, match="cannot approve your own request"):
        call_command(*words, "--reason", "x")

    with django_capture_on_commit_callbacks(execute=True):
        approve(operation, bea)
    [(_, message)] = sent_jobs()
    rollback_task.apply(args=[message]).get()

    operation.refresh_from_db()
    assert operation.state == "succeeded", operation.message
    [row] = approval_rows(Decider.shell(), is_pending=False)
    assert row.requested_by.endswith("(shell)")


def test_a_shell_shows_and_approves_of_what_a_person_asked_for(
    lake: Lake, newest: str, admin: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)
    out = StringIO()

    call_command("approval", "list", stdout=out)
    call_command("approval", "show", str(operation.pk), stdout=out)
    words = ["approval", "approve", str(operation.pk), "--plan-hash", operation.plan_hash]
    call_command(*words, "--reason", "on the phone", stdout=out)

    operation.refresh_from_db()
    assert operation.state == "queued"
    assert out.getvalue().count("requested by ada") == 2
    assert newest in out.getvalue()
    assert AuditEvent.objects.get(what="approval.approve").who.endswith("(shell)")


def test_over_the_api_a_request_is_answered_202_and_its_approval_is_found_by_its_id(
    lake: Lake, newest: str, admin: User, bea: User, client: Client
) -> None:
    needs_approval("rollback")
    client.force_login(admin)
    plan = client.post(
        "/api/v1/tables/trips/rollbacks/plan/", {"instant": newest}, "application/json"
    ).json()
    body = {
        "instant": newest,
        "plan_hash": plan["plan_hash"],
        "reason": "wrong file",
        "table_name": "trips",
    }
    answer = client.post("/api/v1/tables/trips/rollbacks/", body, "application/json")
    address = f"/api/v1/approvals/{answer.json()['row']['id']}/"
    client.force_login(bea)

    [listed] = client.get("/api/v1/approvals/").json()
    detail = client.get(address).json()
    words = {"plan_hash": detail["plan"]["plan_hash"], "reason": "I looked"}
    approved = client.post(f"{address}approve/", words, "application/json")

    assert (answer.status_code, answer.json()["row"]["state"]) == (202, "awaiting")
    assert (listed["reason"], listed["requested_by"]) == ("wrong file", "ada")
    assert (detail["may_decide"], detail["has_changed"]) == (True, False)
    assert (approved.status_code, approved.json()["row"]["decision"]) == (202, "approved")
    assert client.get("/api/v1/approvals/").json() == []
    assert len(client.get("/api/v1/approvals/?state=decided").json()) == 1
