"""The pages of approvals: the plan as it is now, one decision, and the rules."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import Settings

from controlplane.accounts.models import Grant
from controlplane.operations.actions import do_request_service, plan_service
from controlplane.operations.models import ApprovalRule, Operation
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from tests.controlplane.approvals import needs_approval
from tests.web.conftest import TRIPS
from workers.lakehouse import open_table

CHOICE = {"predicate": "city = 'Oslo'"}


@pytest.fixture
def bea(db: None) -> Client:
    """The second admin."""
    user = User.objects.create_user("bea")
    user.groups.add(Group.objects.get(name="admin"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def asked_for(trips: Table, admin: User) -> Operation:
    needs_approval("delete")
    plan = plan_service(trips, "delete", CHOICE, admin)
    return do_request_service(
        trips, "delete", CHOICE, plan.plan_hash, "asked to forget", "trips", admin
    )


def test_another_admin_sees_the_plan_and_approves_of_it(asked_for: Operation, bea: Client) -> None:
    address = f"/approvals/{asked_for.pk}"
    [pending] = bea.get("/approvals").context["pending"]

    shown = bea.get(address)
    without_reason = bea.post(address, {"verdict": "approve", "plan_hash": asked_for.plan_hash})
    words = {"verdict": "approve", "plan_hash": asked_for.plan_hash, "reason": "I looked"}
    approved = bea.post(address, words)

    asked_for.refresh_from_db()
    assert (pending.requested_by, pending.reason) == ("ada", "asked to forget")
    assert len(shown.context["lines"]) > 0
    assert "Approve and run" in shown.content.decode()
    assert without_reason.status_code == 422
    assert approved["Location"] == f"/t/trips/operations/{asked_for.pk}"
    assert asked_for.state == "queued"


def test_the_page_shows_condition_counts_and_rows_that_it_approves(
    asked_for: Operation, bea: Client
) -> None:
    answer = bea.get(f"/approvals/{asked_for.pk}")

    page = answer.content.decode()
    [row, *_] = answer.context["approval"].sample
    assert "Sample rows" in page
    assert row["city"] == "Oslo"
    assert "city = &#x27;Oslo&#x27;" in page
    assert ("rows", 9) in answer.context["effect"].figures
    assert "sample" not in Operation.objects.get(pk=asked_for.pk).plan


@pytest.mark.parametrize("role", ["admin", "operator"])
def test_sample_rows_of_an_overwrite_are_shown_to_those_who_decide(
    trips: Table, admin: User, tmp_path: Path, settings: Settings, role: str
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    needs_approval("insert_overwrite_table")
    (tmp_path / "new.csv").write_text("id,city,ts\n1,Turku,7\n")
    choice = {"path": str(tmp_path / "new.csv")}
    plan = plan_service(trips, "insert_overwrite_table", choice, admin)
    operation = do_request_service(
        trips, "insert_overwrite_table", choice, plan.plan_hash, "a backfill", "trips", admin
    )
    MaskedColumn.objects.create(table=trips, path="ts")
    tom = User.objects.create_user("tom")
    Grant.objects.create(user=tom, role=role, table=trips)
    RowGrant.objects.create(user=tom, right="rows")
    client = Client()
    client.force_login(tom)

    detail = client.get(f"/approvals/{operation.pk}").context["approval"]
    over_rest = client.get(f"/api/v1/approvals/{operation.pk}/").json()

    assert detail.may_decide == (role == "admin")
    assert {row["ts"] for row in detail.sample} == ({"2"} if role == "admin" else set())
    assert over_rest["sample"] == detail.sample


def test_whoever_asked_sees_that_somebody_else_decides(
    asked_for: Operation, as_admin: Client
) -> None:
    address = f"/approvals/{asked_for.pk}"

    shown = as_admin.get(address).content.decode()
    refused = as_admin.post(address, {"verdict": "decline", "reason": "mine"})
    own_page = as_admin.get(f"/t/trips/operations/{asked_for.pk}").content.decode()

    assert "Approve and run" not in shown
    assert "An admin of" in shown
    assert refused.status_code == 403
    assert address in own_page
    assert "Withdraw request" in own_page


def test_plan_that_changed_is_shown_as_such_and_refused(
    asked_for: Operation, trips: Table, bea: Client
) -> None:
    rows = [{"id": 99, "city": "Oslo", "ts": 9}]
    open_table(trips.location).write(pa.Table.from_pylist(rows, schema=TRIPS))
    address = f"/approvals/{asked_for.pk}"

    shown = bea.get(address)
    words = {"verdict": "approve", "plan_hash": asked_for.plan_hash, "reason": "I looked"}
    refused = bea.post(address, words)

    asked_for.refresh_from_db()
    assert shown.context["approval"].has_changed
    assert "The table changed after this request" in shown.content.decode()
    assert (refused.status_code, asked_for.state) == (409, "refused")


def test_rules_are_set_and_taken_away_with_a_reason(trips: Table, as_admin: Client) -> None:
    address = "/t/trips/approvals"
    words = {"action": "restore", "needs_approval": "yes"}

    as_admin.post(address, words)
    assert not ApprovalRule.objects.exists()
    as_admin.post(address, words | {"reason": "four eyes"})
    [row] = [row for row in as_admin.get(address).context["rules"] if row.action == "restore"]
    assert (row.needs_approval, row.is_set_here, row.set_by) == (True, True, "ada")
    as_admin.post(address, words | {"needs_approval": "no", "reason": "alone tonight"})

    assert not ApprovalRule.objects.exists()
