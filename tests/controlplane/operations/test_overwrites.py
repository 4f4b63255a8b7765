"""What a statement or a topic brings overwrites a table: once, as its plan said; or by a schedule,
for as long as its owner is an admin.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.test import Client

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.actions import do_give_leave
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.tables.models import RowGrant, Table
from tests.controlplane.approvals import needs_approval
from tests.controlplane.lake import Lake

SOURCE = {"kind": "sql", "statement": "SELECT id, ts, city FROM trips"}
WISH: dict[str, Any] = {"operation": "insert_overwrite_table", "source": SOURCE}
ADDRESS = "/api/v1/tables/trips/operations/"


def planned(client: Client, **changed: Any) -> dict[str, Any]:
    response = client.post(f"{ADDRESS}plan/", {**WISH, **changed}, "application/json")
    assert response.status_code == 200, response.content
    plan: dict[str, Any] = response.json()
    return plan


def sent(client: Client, **words: Any) -> Any:
    return client.post(ADDRESS, {**WISH, **words}, "application/json")


def confirmed(plan: dict[str, Any]) -> dict[str, str]:
    return {"plan_hash": plan["plan_hash"], "reason": "rebuilt", "table_name": "trips"}


def by_schedule(table: Table, owner: User, **changed: Any) -> Schedule:
    wish = ScheduleWish(name="nightly", kind="write", every_s=3600, parameters={**WISH, **changed})
    return do_make_schedule(table, wish, owner=owner, by=Requester.person(owner))


def taken_turn(schedule: Schedule) -> ScheduleRun:
    schedule.refresh_from_db()
    assert schedule.next_due_at is not None
    (run,) = run_due_schedules(now=schedule.next_due_at + timedelta(seconds=1))
    return run


def test_a_plan_says_what_is_there_and_binds_the_write_to_it(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    plan = planned(client)

    response = sent(client, **confirmed(plan))

    assert (plan["file_groups"], plan["partitions"], plan["blockers"]) == (1, 1, [])
    assert plan["files"] >= 1
    assert plan["bytes"] > 0
    assert response.status_code == 202, response.content
    operation = Operation.objects.get()
    job = operation.parameters["job"]
    assert (job["operation"], job["replaces"]) == ("insert_overwrite_table", plan["replaces"])
    assert operation.plan_hash == plan["plan_hash"]


@pytest.mark.parametrize("without", ["plan_hash", "reason", "table_name"])
def test_nothing_is_overwritten_without_plan_reason_and_name(
    client: Client, admin: User, synced: Table, without: str
) -> None:
    client.force_login(admin)
    words = confirmed(planned(client))
    del words[without]

    assert sent(client, **words).status_code in (400, 409)
    assert not Operation.objects.exists()


def test_a_plan_of_an_older_table_or_of_another_statement_is_void(
    client: Client, admin: User, synced: Table, lake: Lake
) -> None:
    client.force_login(admin)
    words = confirmed(planned(client))
    other = {"kind": "sql", "statement": "SELECT id, ts, city FROM trips WHERE ts > 1"}

    of_another = sent(client, **words, source=other)
    lake.commit({"id": "2", "ts": 2, "city": "Turku"})
    too_late = sent(client, **words)

    for refused in (of_another, too_late):
        assert (refused.status_code, refused.json()["code"]) == (409, "plan_changed")
    assert not Operation.objects.exists()


def test_overwriting_is_an_admins(client: Client, operator: User, synced: Table) -> None:
    client.force_login(operator)
    words = confirmed(planned(client))

    assert sent(client, **words).status_code == 403
    with pytest.raises(PermissionDenied):
        by_schedule(synced, operator)


def test_where_a_second_approver_is_wanted_only_a_file_overwrites(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    words = confirmed(planned(client))
    schedule = by_schedule(synced, admin)
    needs_approval("insert_overwrite_table", synced)

    refused = sent(client, **words)
    run = taken_turn(schedule)

    assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed_now")
    assert run.outcome == ScheduleRun.Outcome.NOT_RUN
    assert "requires an approval" in run.words
    with pytest.raises(NotAllowedNow):
        by_schedule(synced, admin, operation="insert_overwrite_table")


def test_a_schedule_overwrites_whatever_is_there_when_it_runs(
    admin: User, synced: Table, lake: Lake
) -> None:
    schedule = by_schedule(synced, admin)
    lake.commit({"id": "2", "ts": 2, "city": "Turku"})

    run = taken_turn(schedule)

    assert run.operation is not None
    job = run.operation.parameters["job"]
    assert (job["operation"], job["replaces"]) == ("insert_overwrite_table", "")
    assert do_give_leave(run.operation.pk) is True


def test_a_schedule_of_who_is_no_admin_any_more_overwrites_nothing(
    admin: User, synced: Table
) -> None:
    schedule = by_schedule(synced, admin)
    queued = taken_turn(schedule).operation
    assert queued is not None
    admin.groups.set([Group.objects.get(name="operator")])
    Operation.objects.filter(pk=queued.pk).update(state="queued")

    assert do_give_leave(queued.pk) is False
    queued.refresh_from_db()
    assert queued.state == "refused"
    assert taken_turn(schedule).outcome == ScheduleRun.Outcome.REFUSED


def test_what_has_no_rows_to_overwrite_with_is_no_schedule(admin: User, synced: Table) -> None:
    for operation in ("delete", "delete_partition"):
        with pytest.raises(InvalidRequest):
            by_schedule(synced, admin, operation=operation)


@pytest.mark.parametrize(
    ("operation", "ids", "note"),
    [
        ("insert_overwrite_table", ["1"], ""),
        ("insert_overwrite", [], "known once the write has read its rows"),
    ],
)
def test_a_plan_has_sample_rows_or_says_why_not(
    client: Client, admin: User, synced: Table, operation: str, ids: list[str], note: str
) -> None:
    client.force_login(admin)

    plan = planned(client, operation=operation)
    sent(client, operation=operation, **confirmed(plan))

    stored = Operation.objects.get()
    page = client.get(f"/t/trips/operations/{stored.pk}").content.decode()
    assert [row["id"] for row in plan["sample"]] == ids
    assert note in plan["sample_note"]
    assert bool(note) == bool(plan["sample_note"])
    assert stored.plan["sample"] == []
    assert stored.plan["sample_note"] in page


def test_a_plan_has_no_rows_for_who_may_not_read_them(
    client: Client, operator: User, synced: Table
) -> None:
    RowGrant.objects.all().delete()
    client.force_login(operator)

    plan = planned(client)

    assert plan["sample"] == []
    assert "needs the right to read rows" in plan["sample_note"]
