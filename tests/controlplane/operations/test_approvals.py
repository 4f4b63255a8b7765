"""What needs a second person waits for him, runs once he approves of it, and otherwise never."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, KeyReused, NotAllowedNow, PlanVoid
from controlplane.monitoring.events import build_event_checks
from controlplane.operations.actions import do_reconcile, do_request_cancel
from controlplane.operations.approvals.deciding import Decider
from controlplane.operations.approvals.queries import approval_detail, approval_rows
from controlplane.operations.approvals.rules import approval_actions, do_set_rule, rule_rows
from controlplane.operations.corrections import correct_ends
from controlplane.operations.models import Approval, ApprovalRule, Operation
from controlplane.operations.waiting import waits_of
from controlplane.tables.scopes import Scope
from tests.controlplane.approvals import approve, decline, needs_approval
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask as ask_service
from tests.controlplane.service_jobs import ask_rollback as ask
from tests.controlplane.service_jobs import sent_jobs
from workers.lakehouse import LakehouseTable
from workers.tasks import rollback as rollback_task

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "2", "ts": 1, "city": "Bergen"}


@pytest.fixture
def bea(db: None) -> User:
    """The second admin."""
    user = User.objects.create_user("bea")
    user.groups.add(Group.objects.get(name="admin"))
    return user


@pytest.fixture
def newest(lake: Lake) -> str:
    lake.commit(OSLO)
    sent_jobs()
    return lake.commit(BERGEN)


def decision(operation: Operation) -> str:
    return Approval.objects.get(operation=operation).decision


def results(what: str) -> list[tuple[str, str]]:
    return [(event.who, event.result) for event in AuditEvent.objects.filter(what=what)]


def cities(lake: Lake) -> list[str]:
    return sorted(LakehouseTable(lake.table).read().column("city").to_pylist())


def test_without_a_rule_nothing_awaits_anybody(lake: Lake, newest: str, admin: User) -> None:
    assert ask(lake, newest, admin).state == "queued"
    assert not Approval.objects.exists()


@pytest.mark.usefixtures("working")
def test_what_is_approved_runs_in_its_requesters_name(
    lake: Lake, newest: str, admin: User, bea: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    needs_approval("rollback")
    with django_capture_on_commit_callbacks(execute=True):
        operation = ask(lake, newest, admin)
        do_reconcile(now=timezone.now() + timedelta(minutes=10))
    assert (operation.state, sent_jobs()) == ("awaiting", [])

    with django_capture_on_commit_callbacks(execute=True):
        approve(operation, bea)
    [(_, message)] = sent_jobs()
    rollback_task.apply(args=[message]).get()

    operation.refresh_from_db()
    assert (operation.state, operation.requested_by) == ("succeeded", admin)
    assert message["asks_leave"] is True
    assert cities(lake) == ["Oslo"]
    assert results("approval.request") == [("ada", "requested")]
    assert results("approval.approve") == [("bea", "approved")]
    assert ("ada", "succeeded") in results("operation.rollback")


@pytest.mark.parametrize("place", ["table", "namespace", "everywhere"])
def test_rule_of_any_place_holds_and_of_another_place_does_not(
    place: str, lake: Lake, newest: str, admin: User
) -> None:
    rule = {"table": lake.row} if place == "table" else {}
    needs_approval("rollback", namespace="default" if place == "namespace" else "", **rule)
    needs_approval("restore")
    ApprovalRule.objects.create(action="rollback", namespace="elsewhere")

    assert ask(lake, newest, admin).state == "awaiting"
    ApprovalRule.objects.filter(action="rollback").exclude(namespace="elsewhere").delete()
    do_request_cancel(operation=Operation.objects.get(), by=admin)
    assert ask(lake, newest, admin).state == "queued"


def test_every_action_that_takes_data_away_by_a_plan_may_need_it(
    lake: Lake, newest: str, admin: User
) -> None:
    for action in approval_actions():
        needs_approval(action)

    deletion = ask_service(lake, "delete", admin, parameters={"predicate": "city = 'Oslo'"})
    savepoint = ask_service(lake, "savepoint", admin)

    assert (deletion.state, savepoint.state) == ("awaiting", "queued")
    assert {"rollback", "rollback_several", "restore", "repair", "delete", "delete_savepoint"} <= (
        set(approval_actions())
    )
    assert "savepoint" not in approval_actions()


def test_key_of_a_request_is_good_while_it_awaits_and_afterwards(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin, idempotency_key="k1")

    assert ask(lake, newest, admin, idempotency_key="k1").pk == operation.pk
    approve(operation, bea)
    with pytest.raises(KeyReused):
        ask(lake, newest, admin, idempotency_key="k1", reason="another")
    again = ask(lake, newest, admin, idempotency_key="k1")

    assert (again.pk, again.state) == (operation.pk, "queued")
    assert Operation.objects.count() == 1


def test_plan_that_changed_is_refused_and_has_to_be_asked_for_anew(
    lake: Lake, admin: User, bea: User
) -> None:
    lake.commit(OSLO)
    needs_approval("delete")
    parameters = {"predicate": "city = 'Oslo'"}
    operation = ask_service(lake, "delete", admin, parameters=parameters)
    lake.commit({"id": "3", "ts": 1, "city": "Oslo"})

    assert approval_detail(operation.pk, Decider.person(bea)).has_changed
    with pytest.raises(PlanVoid, match="request the operation again"):
        approve(operation, bea)

    operation.refresh_from_db()
    assert (operation.state, decision(operation)) == ("refused", "void")
    assert results("approval.void") == [("control-plane", "void")]
    anew = ask_service(lake, "delete", admin, parameters=parameters)
    assert approve(anew, bea).state == "queued"


def test_hash_of_another_plan_approves_of_nothing(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)

    with pytest.raises(InvalidRequest, match="differs from the requested plan"):
        approve(operation, bea, plan_hash="0" * 64)

    assert decision(operation) == "pending"


def test_what_is_declined_never_runs_and_says_why(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)

    decline(operation, bea)
    decline(operation, bea)

    operation.refresh_from_db()
    assert operation.state == "refused"
    assert operation.message == "declined by bea: not that one"
    assert results("approval.decline") == [("bea", "declined")]
    with pytest.raises(NotAllowedNow, match="already decided"):
        approve(operation, bea)
    checks = build_event_checks(lake.row, timezone.now(), {})
    assert [check.name for check in checks if check.name == "event-failed-operation"] == []


def test_a_day_later_it_has_expired(lake: Lake, newest: str, admin: User, bea: User) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)
    do_reconcile(now=timezone.now() + timedelta(hours=23))
    assert decision(operation) == "pending"

    do_reconcile(now=timezone.now() + timedelta(hours=25))

    operation.refresh_from_db()
    assert (operation.state, decision(operation)) == ("refused", "expired")
    assert results("approval.expire") == [("control-plane", "expired")]
    with pytest.raises(NotAllowedNow, match="already decided"):
        approve(operation, bea)


def test_what_has_expired_is_not_approved_before_the_node_looks(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)
    Approval.objects.update(expires_at=timezone.now())

    with pytest.raises(NotAllowedNow, match="request the operation again"):
        approve(operation, bea)

    assert decision(operation) == "expired"


def test_whoever_asked_withdraws_it_and_the_next_request_is_free(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)
    with pytest.raises(NotAllowedNow, match="under way"):
        ask(lake, newest, bea)

    assert do_request_cancel(operation=operation, by=admin).state == "cancelled"

    [row] = approval_rows(Decider.person(bea), is_pending=False)
    assert row.decision == "withdrawn"
    with pytest.raises(NotAllowedNow, match="already decided"):
        approve(operation, bea)
    assert ask(lake, newest, bea).state == "awaiting"


def test_effect_of_another_request_makes_no_success_of_what_was_declined(
    lake: Lake, newest: str, admin: User, bea: User
) -> None:
    needs_approval("rollback")
    declined = ask(lake, newest, admin)
    decline(declined, bea)
    ApprovalRule.objects.all().delete()
    call_command("rollback", "trips", newest, "--yes", stdout=StringIO())

    correct_ends(timezone.now())

    declined.refresh_from_db()
    assert declined.state == "refused"


def test_it_is_said_what_it_waits_for_and_an_alert_calls(
    lake: Lake, newest: str, admin: User
) -> None:
    needs_approval("rollback")
    operation = ask(lake, newest, admin)

    waits = waits_of([operation], timezone.now())
    checks = build_event_checks(lake.row, timezone.now(), {})

    assert waits[operation.pk].words == "a second person to approve"
    assert [check.sentence for check in checks if check.name == "event-approval"] == [
        "1 operation awaits approval"
    ]


@pytest.mark.parametrize("rival", [approve, decline])
def test_of_people_who_decide_at_once_the_first_one_decides(
    rival: Callable[[Operation, User], object],
    lake: Lake, newest: str, admin: User, bea: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    """The rival comes after all that the other one has looked at, and before he holds the row."""
    carl = User.objects.create_user("carl")
    carl.groups.add(Group.objects.get(name="admin"))
    needs_approval("rollback")
    operation = ask(lake, newest, admin)
    rivals = [carl]

    def rival_first(execute: Callable[..., Any], sql: str, *words: Any) -> Any:
        if sql.startswith("SAVEPOINT") and rivals:
            rival(operation, rivals.pop())
        return execute(sql, *words)

    with (
        django_capture_on_commit_callbacks(execute=True),
        connection.execute_wrapper(rival_first),
        pytest.raises(NotAllowedNow, match="another user has already decided"),
    ):
        approve(operation, bea)

    assert rivals == []
    assert len(sent_jobs()) == (1 if rival is approve else 0)
    assert results("approval.approve") == ([("carl", "approved")] if rival is approve else [])


def test_rules_are_an_admins_with_a_reason_and_are_in_the_audit(lake: Lake, admin: User) -> None:
    scope = Scope(table=lake.row)
    with pytest.raises(InvalidRequest, match="reason"):
        do_set_rule("restore", True, scope=scope, by=admin, reason=" ")
    with pytest.raises(InvalidRequest, match="cannot require approval"):
        do_set_rule("compaction", True, scope=scope, by=admin, reason="x")
    do_set_rule("restore", True, scope=Scope(), by=admin, reason="four eyes")
    do_set_rule("restore", True, scope=scope, by=admin, reason="four eyes")

    row = do_set_rule("restore", False, scope=scope, by=admin, reason="alone tonight")

    assert (row.needs_approval, row.is_set_here, row.sources) == (True, False, ["everywhere"])
    events = AuditEvent.objects.filter(what="approval.rule").order_by("pk")
    assert [(event.object, event.details["needs_approval"]) for event in events] == [
        ("everywhere", True),
        ("trips", True),
        ("trips", False),
    ]
    assert not any(row.needs_approval for row in rule_rows(scope) if row.action == "delete")
