"""Threats T12, T14 and T25: nobody approves of what he asked for himself, nor without the right
that the request needs, on that table, when he approves and when the job begins.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.errors import NotAllowedNow
from controlplane.operations.actions import do_give_leave
from controlplane.operations.approvals.deciding import Decider, do_approve, do_decline
from controlplane.operations.approvals.queries import approval_detail
from controlplane.operations.approvals.rules import do_set_rule
from controlplane.operations.models import Approval, Operation
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope
from tests.controlplane.approvals import awaiting, needs_approval
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, ask_rollback, sent_jobs
from workers.lakehouse import LakehouseTable
from workers.tasks import rollback as rollback_task

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
WORDS = {"plan_hash": "0" * 64, "reason": "I looked"}


@pytest.fixture
def bea(lake: Lake) -> User:
    """An admin of this table alone."""
    user = User.objects.create_user("bea")
    Grant.objects.create(user=user, table=lake.row, role="admin")
    return user


@pytest.fixture
def asked_for(lake: Lake, admin: User) -> Operation:
    needs_approval("rollback")
    return ask_rollback(lake, lake.commit(OSLO), admin)


def approve(operation: Operation, by: User) -> Operation:
    return do_approve(
        operation.pk, by=Decider.person(by), plan_hash=operation.plan_hash, reason="I looked"
    )


def is_pending(operation: Operation) -> bool:
    operation.refresh_from_db()
    return operation.state == "awaiting" and operation.approval.decision == "pending"


def test_nobody_decides_what_he_asked_for_by_page_or_token(
    asked_for: Operation, admin: User, client: Client
) -> None:
    address = f"/api/v1/approvals/{asked_for.pk}"
    body = WORDS | {"plan_hash": asked_for.plan_hash}
    _, token = create_token(admin, scope="administer")

    client.force_login(admin)
    by_session = [client.post(f"{address}/{verb}/", body, "application/json").status_code
                  for verb in ("approve", "decline")]  # fmt: skip
    by_token = Client().post(
        f"{address}/approve/", body, "application/json", headers={"Authorization": f"Token {token}"}
    )

    assert by_session == [403, 403]
    assert by_token.status_code == 403
    assert not approval_detail(asked_for.pk, Decider.person(admin)).may_decide
    assert is_pending(asked_for)


@pytest.mark.parametrize("role", ["viewer", "operator", "auditor"])
def test_lesser_roles_decide_nothing_and_see_no_plan(role: str, asked_for: Operation) -> None:
    user = User.objects.create_user("lea")
    user.groups.add(Group.objects.get(name=role))

    for decide in (approve, lambda operation, by: do_decline(
        operation.pk, by=Decider.person(by), reason="no"
    )):  # fmt: skip
        with pytest.raises(PermissionDenied):
            decide(asked_for, user)

    assert approval_detail(asked_for.pk, Decider.person(user)).plan == {}
    assert is_pending(asked_for)


def test_admin_of_another_table_does_not_know_of_it(asked_for: Operation, admin: User) -> None:
    other = Table.objects.create(slug="other", name="Other", location="/lake/other", namespace="x")
    user = User.objects.create_user("olga")
    Grant.objects.create(user=user, table=other, role="admin")

    with pytest.raises(Http404):
        approve(asked_for, user)

    assert is_pending(asked_for)


@pytest.mark.parametrize(
    ("scope", "place", "status"),
    [
        ("read", "", 403),
        ("operate", "", 403),
        ("administer", "namespace elsewhere", 404),
        ("administer", "this table", 202),
    ],
)
def test_narrow_token_of_another_admin_approves_within_its_limits_alone(
    scope: str, place: str, status: int, asked_for: Operation, bea: User
) -> None:
    Grant.objects.create(user=bea, namespace="elsewhere", role="admin")
    _, token = create_token(
        bea,
        scope=scope,
        namespaces=["elsewhere"] if place == "namespace elsewhere" else [],
        table_keys=[asked_for.table_id] if place == "this table" else [],
    )

    answer = Client().post(
        f"/api/v1/approvals/{asked_for.pk}/approve/",
        WORDS | {"plan_hash": asked_for.plan_hash},
        "application/json",
        headers={"Authorization": f"Token {token}"},
    )

    assert answer.status_code == status
    assert is_pending(asked_for) == (status != 202)


def test_whoever_asked_and_lost_the_role_gets_nothing_by_a_late_approval(
    asked_for: Operation, admin: User, bea: User
) -> None:
    admin.groups.clear()

    with pytest.raises(NotAllowedNow, match="no longer authorized"):
        approve(asked_for, bea)

    asked_for.refresh_from_db()
    assert (asked_for.state, asked_for.approval.decision) == ("refused", "void")


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("loser", ["ada", "bea"])
def test_job_is_refused_as_it_begins_when_requester_or_approver_lost_the_role(
    loser: str, asked_for: Operation, bea: User, lake: Lake,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        approve(asked_for, bea)
    [(_, message)] = sent_jobs()
    Grant.objects.filter(user__username=loser).delete()
    User.objects.get(username=loser).groups.clear()

    rollback_task.apply(args=[message]).get()

    asked_for.refresh_from_db()
    assert asked_for.state == "refused"
    assert "no longer authorized" in asked_for.message
    assert len(LakehouseTable(lake.table).read()) == 1


def test_worker_gets_no_leave_for_what_awaits_approval(asked_for: Operation) -> None:
    assert do_give_leave(asked_for.pk) is False
    assert is_pending(asked_for)


def test_list_shows_no_choice_of_rows_to_whoever_may_not_decide(
    lake: Lake, admin: User, bea: User
) -> None:
    lake.commit(OSLO)
    needs_approval("delete")
    operation = ask(lake, "delete", admin, parameters={"predicate": "city = 'Oslo'"})
    Grant.objects.filter(user=bea).update(role="operator")

    detail = approval_detail(operation.pk, Decider.person(bea))

    assert not detail.may_decide
    assert "Oslo" not in str(detail)


def test_admin_of_a_table_takes_no_rule_of_its_namespace_away(lake: Lake, bea: User) -> None:
    needs_approval("rollback", namespace=lake.row.namespace)
    own, wide = Scope(table=lake.row), Scope(namespace=lake.row.namespace)

    row = do_set_rule("rollback", False, scope=own, by=bea, reason="alone")
    for scope in (wide, Scope()):
        with pytest.raises(PermissionDenied):
            do_set_rule("rollback", False, scope=scope, by=bea, reason="alone")

    assert row.needs_approval
    assert row.sources == ["namespace"]


def test_approval_that_nobody_gave_is_worth_nothing_when_its_job_is_forged(lake: Lake) -> None:
    operation = awaiting(lake.row)
    Operation.objects.update(state="queued")

    assert do_give_leave(operation.pk) is False
    operation.refresh_from_db()
    assert operation.state == "refused"
    assert Approval.objects.get().decision == "pending"
