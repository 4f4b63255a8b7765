"""A rollback as the steps of its plan: how far it is while it runs, what storage shows afterwards,
and the second person on the way.
"""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.operations.actions import (
    do_request_rollback,
    do_request_service,
    plan_rollback,
    plan_service,
)
from controlplane.operations.approvals.deciding import Decider, do_approve, do_decline
from controlplane.operations.models import Operation
from controlplane.operations.plan_steps import STEPS_SHOWN, plan_way
from controlplane.tables.models import Table
from tests.controlplane.approvals import needs_approval
from tests.support.markup import compact
from tests.web.conftest import _person
from workers import open_table

QUERIES_MAX = 14


@pytest.fixture
def newest(trips: Table) -> str:
    return str(trips.instants.latest("requested_at").requested_at)


@pytest.fixture
def asked_for(trips: Table, newest: str, admin: User) -> Operation:
    """A rollback of the newest write, with its plan."""
    plan = plan_rollback(trips, newest)
    return do_request_rollback(trips, newest, plan.plan_hash, "wrong day", "trips", admin)


def states(operation: Operation) -> list[str]:
    steps = plan_way(operation.pk).steps
    assert steps is not None
    return [step.state for step in steps.steps]


def set_files(operation: Operation, count: int) -> None:
    operation.plan["files"] = [{"path": f"p/{at:04}.parquet", "bytes": 7} for at in range(count)]
    operation.save(update_fields=["plan"])


def page(client: Client, operation: Operation) -> str:
    answer = client.get(f"/t/trips/operations/{operation.pk}")
    assert answer.status_code == 200
    return compact(answer.content.decode())


def test_files_go_one_after_the_other_while_it_runs(asked_for: Operation, as_admin: Client) -> None:
    set_files(asked_for, 4)
    waiting = states(asked_for)
    Operation.objects.update(state="running", progress_done=2, progress_total=4)

    html = page(as_admin, asked_for)

    assert waiting == ["waiting"] * 4
    assert states(asked_for) == ["done", "done", "running", "waiting"]
    assert "2 done, reported by the worker" in html
    assert "p/0002.parquet" in html


def test_long_plan_shows_what_is_under_way(asked_for: Operation) -> None:
    set_files(asked_for, 1_000)
    Operation.objects.update(state="running", progress_done=600)

    steps = plan_way(asked_for.pk).steps

    assert steps is not None
    assert (len(steps.steps), steps.total, steps.done) == (STEPS_SHOWN, 1_000, 600)
    under_way = next(step for step in steps.steps if step.state == "running")
    assert (under_way.number, under_way.path) == (601, "p/0600.parquet")


def test_afterwards_storage_is_asked_and_not_the_worker(
    asked_for: Operation, newest: str, trips: Table, as_admin: Client
) -> None:
    Operation.objects.update(state="succeeded", progress_done=99, finished_at=timezone.now())
    before = states(asked_for)

    open_table(trips.location).rollback(newest, dry_run=False)

    assert set(before) == {"left"}
    assert set(states(asked_for)) == {"done"}
    assert "checked against storage" in page(as_admin, asked_for)


def test_storage_that_is_silent_says_neither(asked_for: Operation, trips: Table) -> None:
    Operation.objects.update(state="failed", finished_at=timezone.now())
    Table.objects.update(location=trips.location + "-moved")

    assert set(states(asked_for)) == {"unknown"}


def test_several_instants_are_steps_newest_first(
    trips: Table, admin: User, as_admin: Client
) -> None:
    older, newest = [one.requested_at for one in trips.instants.order_by("requested_at")][-2:]
    chosen = {"instants": f"{older},{newest}"}
    plan = plan_service(trips, "rollback_several", chosen, None)
    operation = do_request_service(
        trips, "rollback_several", chosen, plan.plan_hash, "wrong days", "trips", admin
    )
    Operation.objects.update(state="running", progress_done=1)
    html = page(as_admin, operation)
    Operation.objects.update(state="failed", finished_at=timezone.now())
    open_table(trips.location).rollback(newest, dry_run=False)

    steps = plan_way(operation.pk).steps

    assert "Instants, in order of rollback" in html
    assert re.search(rf"done.*?{newest}.*?running.*?{older}", html)
    assert steps is not None
    assert [(step.instant, step.state) for step in steps.steps] == [
        (newest, "done"),
        (older, "left"),
    ]


def test_other_operations_have_no_such_steps(trips: Table, admin: User) -> None:
    kept = {"instant": str(trips.instants.latest("requested_at").requested_at)}
    plan = plan_service(trips, "savepoint", kept, None)
    operation = do_request_service(trips, "savepoint", kept, plan.plan_hash, "", "", admin)

    assert plan_way(operation.pk).steps is None


def test_second_person_is_a_step_from_the_first_look_to_the_decision(
    trips: Table, newest: str, admin: User, as_admin: Client
) -> None:
    before = as_admin.get(f"/t/trips/rollback/{newest}").content.decode()
    needs_approval("rollback", trips)
    plan = plan_rollback(trips, newest)
    looked_at = [
        as_admin.get(path).content.decode()
        for path in ("/t/trips/rollback", f"/t/trips/rollback/{newest}")
    ]
    operation = do_request_rollback(trips, newest, plan.plan_hash, "wrong day", "trips", admin)
    awaited = page(as_admin, operation)
    do_approve(
        operation.pk,
        plan_hash=plan.plan_hash,
        reason="seen",
        by=Decider.person(_person("ida", "admin")),
    )

    with CaptureQueriesContext(connection) as queries:
        approved = page(as_admin, operation)

    assert "Awaiting approval by a second person" not in before
    assert all("Awaiting approval by a second person" in html for html in looked_at)
    assert re.search(r'aria-current="step">\s*<span>\s*3\s*</span>\s*Awaiting approval', awaited)
    assert "Approved by ida" in approved
    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]


def test_declined_rollback_ends_at_the_second_person(
    trips: Table, newest: str, admin: User, as_admin: Client
) -> None:
    needs_approval("rollback", trips)
    plan = plan_rollback(trips, newest)
    operation = do_request_rollback(trips, newest, plan.plan_hash, "wrong day", "trips", admin)
    do_decline(operation.pk, reason="<b>not</b> now", by=Decider.person(_person("ida", "admin")))

    html = page(as_admin, operation)

    assert "Not approved: declined" in html
    assert "&lt;b&gt;not&lt;/b&gt; now" in html
    assert set(states(operation)) == {"left"}
