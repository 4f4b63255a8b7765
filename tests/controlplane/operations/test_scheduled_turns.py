"""Schedules of operations: each turn once, in its owner's name, and a word where nothing is run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.scheduled import turns
from controlplane.operations.scheduled.actions import (
    do_change_schedule,
    do_delete_schedule,
    do_forget_runs,
    do_make_schedule,
    do_pause_schedule,
)
from controlplane.operations.scheduled.queries import runs_of, schedule_row, schedules_of
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake

WRITE: dict[str, Any] = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
HOUR = timedelta(hours=1)


def make(table: Table, owner: User, **wish: Any) -> Schedule:
    wanted = {"name": "nightly", "kind": "write", "parameters": WRITE, **wish}
    if not {"cron", "after_schedule", "after_operation"} & set(wish):
        wanted.setdefault("every_s", 3600)
    by = Requester.person(owner)
    return do_make_schedule(table, ScheduleWish(**wanted), owner=owner, by=by)


def first_turn(schedule: Schedule) -> datetime:
    schedule.refresh_from_db()
    assert schedule.next_due_at is not None
    return schedule.next_due_at


def end(operation: Operation | None, state: str) -> None:
    assert operation is not None
    Operation.objects.filter(pk=operation.pk).update(state=state, finished_at=timezone.now())


def test_a_due_time_becomes_one_operation_in_the_name_of_its_owner(
    lake: Lake, operator: User
) -> None:
    schedule = make(lake.row, operator)
    due_at = first_turn(schedule)
    assert run_due_schedules(now=due_at - timedelta(seconds=1)) == []

    (run,) = run_due_schedules(now=due_at + timedelta(seconds=2))

    assert run_due_schedules(now=due_at + timedelta(seconds=3)) == []
    operation = Operation.objects.get()
    assert (run.operation, run.due_at, run.missed) == (operation, due_at, 0)
    assert (operation.requested_by, operation.reason) == (operator, "by the schedule nightly")
    assert first_turn(schedule) == due_at + HOUR


def test_two_looks_at_one_due_time_make_one_operation(lake: Lake, operator: User) -> None:
    schedule = make(lake.row, operator)
    due_at = first_turn(schedule)
    stale = Schedule.objects.select_related("table", "owner").get()

    assert turns._take_turns(schedule, due_at) != []

    assert turns._take_turns(stale, due_at) == []
    Schedule.objects.update(next_due_at=due_at)  # As if nobody had moved it on.
    Operation.objects.update(state="succeeded")
    assert run_due_schedules(now=due_at) == []
    assert Operation.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_dies_before_its_turn_is_stored_leaves_it_to_the_next(
    lake: Lake, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = make(lake.row, operator)
    due_at = first_turn(schedule)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(turns, "publish_change", die)  # The last step before the commit.
        with pytest.raises(KeyboardInterrupt):
            run_due_schedules(now=due_at)
    assert (Operation.objects.count(), ScheduleRun.objects.count()) == (0, 0)

    run_due_schedules(now=due_at + timedelta(seconds=5))

    assert (Operation.objects.count(), ScheduleRun.objects.get().due_at) == (1, due_at)


def test_after_a_standstill_it_runs_once_and_says_for_how_many(lake: Lake, operator: User) -> None:
    schedule = make(lake.row, operator)
    due_at = first_turn(schedule)

    (run,) = run_due_schedules(now=due_at + 4 * HOUR + timedelta(minutes=10))

    assert (run.due_at, run.missed) == (due_at + 4 * HOUR, 4)
    assert first_turn(schedule) == due_at + 5 * HOUR


def test_what_is_due_while_its_last_run_is_open_is_skipped_and_says_so(
    lake: Lake, operator: User
) -> None:
    schedule = make(lake.row, operator)
    due_at = first_turn(schedule)
    (first,) = run_due_schedules(now=due_at)

    (skipped,) = run_due_schedules(now=due_at + HOUR)
    row = schedule_row(schedule, operator)
    end(first.operation, "failed")
    (later,) = run_due_schedules(now=due_at + 2 * HOUR)

    assert (skipped.outcome, skipped.operation) == ("skipped", None)
    assert row.waits_for == first.operation_id
    assert (later.outcome, Operation.objects.count()) == ("requested", 2)


def test_a_paused_one_is_not_due_and_makes_nothing_up(lake: Lake, operator: User) -> None:
    schedule = make(lake.row, operator)
    by = Requester.person(operator)
    do_pause_schedule(schedule, is_paused=True, by=by, reason="the source is away")
    assert schedule_row(schedule, operator).next_due == []
    assert run_due_schedules(now=timezone.now() + 5 * HOUR) == []

    do_pause_schedule(schedule, is_paused=False, by=by)

    assert run_due_schedules(now=timezone.now()) == []
    row = schedule_row(schedule, operator)
    assert len(row.next_due) == 5
    assert row.next_due[0] == first_turn(schedule)
    whats = list(AuditEvent.objects.order_by("pk").values_list("what", flat=True))
    assert whats[-3:] == ["schedule.make", "schedule.pause", "schedule.resume"]


def test_the_rights_of_its_owner_are_asked_again_at_each_run(lake: Lake, operator: User) -> None:
    schedule = make(lake.row, operator)
    operator.groups.set([Group.objects.get(name="viewer")])

    (run,) = run_due_schedules(now=first_turn(schedule))

    assert (run.outcome, run.operation) == ("refused", None)
    assert run.words == "olaf lacks the operator role"
    assert AuditEvent.objects.filter(what="schedule.run", result="refused").count() == 1
    Schedule.objects.update(owner=None)
    (orphan,) = run_due_schedules(now=first_turn(schedule))
    assert (orphan.outcome, Operation.objects.count()) == ("refused", 0)


def test_whoever_changes_it_owns_it(lake: Lake, operator: User, admin: User) -> None:
    schedule = make(lake.row, operator)
    wish = ScheduleWish(name="nightly", kind="write", parameters=WRITE, cron="0 4 * * *")

    do_change_schedule(schedule, wish, owner=admin, by=Requester.person(admin))

    row = schedule_row(schedule, admin)
    assert (row.owner, row.trigger, row.every_s) == ("ada", "cron", 0)
    assert row.words == "At 04:00 every day"
    event = AuditEvent.objects.get(what="schedule.change")
    assert (event.details["before"]["every_s"], event.details["cron"]) == (3600, "0 4 * * *")


def test_one_comes_after_the_success_of_another_also_of_another_table(
    lake: Lake, other: Table, operator: User
) -> None:
    load = make(lake.row, operator, name="load")
    make(other, operator, name="copy", after_schedule=load.pk)
    (loaded,) = run_due_schedules(now=first_turn(load))
    assert run_due_schedules(now=loaded.due_at) == []

    end(loaded.operation, "succeeded")
    (copied,) = run_due_schedules(now=loaded.due_at)

    assert run_due_schedules(now=loaded.due_at) == []
    assert (copied.outcome, copied.after) == ("requested", loaded.operation)
    assert copied.operation is not None
    assert copied.operation.table == other


def test_after_a_failure_it_says_why_it_was_not_run_and_so_does_what_comes_after_it(
    lake: Lake, operator: User
) -> None:
    load = make(lake.row, operator, name="load")
    copy = make(lake.row, operator, name="copy", after_schedule=load.pk)
    make(lake.row, operator, name="report", after_schedule=copy.pk)
    (loaded,) = run_due_schedules(now=first_turn(load))
    end(loaded.operation, "failed")

    run_due_schedules(now=loaded.due_at)
    run_due_schedules(now=loaded.due_at)

    words = {run.schedule.name: (run.outcome, run.words) for run in ScheduleRun.objects.all()}
    assert words["copy"] == ("not_run", "what it comes after ended as failed")
    assert words["report"] == ("not_run", "what it comes after was not run")
    assert Operation.objects.count() == 1


def test_what_comes_after_waits_for_its_own_run_and_then_the_newest_success_counts(
    lake: Lake, operator: User
) -> None:
    load = make(lake.row, operator, name="load")
    copy = make(lake.row, operator, name="copy", after_schedule=load.pk)
    for _ in range(3):
        (loaded,) = run_due_schedules(now=first_turn(load))
        end(loaded.operation, "succeeded")
        if copy.runs.count() == 0:
            run_due_schedules(now=loaded.due_at)
    assert copy.runs.count() == 1

    first = copy.runs.get()
    end(first.operation, "succeeded")
    run_due_schedules(now=loaded.due_at)

    outcomes = [run.outcome for run in copy.runs.order_by("pk")]
    assert outcomes == ["requested", "skipped", "requested"]


def test_one_comes_once_after_an_operation(lake: Lake, operator: User) -> None:
    load = make(lake.row, operator, name="load")
    (loaded,) = run_due_schedules(now=first_turn(load))
    once = make(lake.row, operator, name="once", after_operation=loaded.operation_id)
    end(loaded.operation, "succeeded")

    first = run_due_schedules(now=loaded.due_at)
    end(first[0].operation, "succeeded")

    assert run_due_schedules(now=loaded.due_at) == []
    assert schedule_row(once, operator).is_over


def test_a_circle_is_refused(lake: Lake, other: Table, operator: User) -> None:
    load = make(lake.row, operator, name="load")
    copy = make(other, operator, name="copy", after_schedule=load.pk)
    report = make(lake.row, operator, name="report", after_schedule=copy.pk)
    by = Requester.person(operator)

    for after in (report, load):
        wish = ScheduleWish(name="load", kind="write", parameters=WRITE, after_schedule=after.pk)
        with pytest.raises(InvalidRequest, match="would wait for each other"):
            do_change_schedule(load, wish, owner=operator, by=by)

    load.refresh_from_db()
    assert load.trigger == "every"
    with pytest.raises(NotAllowedNow, match="run after"):
        do_delete_schedule(load, by=by)
    do_delete_schedule(report, by=by)
    assert not Schedule.objects.filter(name="report").exists()


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"kind": "rollback"}, "cannot be scheduled"),
        ({"kind": "service", "service": "delete", "parameters": {}}, "cannot be scheduled"),
        ({"kind": "service", "service": "clean", "parameters": {"huh": "1"}}, "huh"),
        (
            {"parameters": {"source": {"kind": "csv", "path": "/etc/passwd"}}},
            "outside the configured roots",
        ),
        ({"parameters": {**WRITE, "operation": "delete"}}, "deletes data"),
        ({"every_s": 60, "cron": "* * * * *"}, "an interval, a cron expression or"),
        ({"name": "no/slash"}, "the name of a schedule"),
    ],
)
def test_what_would_be_refused_at_each_run_is_refused_when_it_is_made(
    lake: Lake, operator: User, wish: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make(lake.row, operator, **wish)

    assert words in str(refusal.value)
    assert Schedule.objects.count() == 0


def test_it_is_made_by_whoever_may_ask_for_it_and_once_by_that_name(
    lake: Lake, operator: User, viewer: User
) -> None:
    with pytest.raises(PermissionDenied):
        make(lake.row, viewer)
    make(lake.row, operator)

    with pytest.raises(InvalidRequest, match="with this name"), transaction.atomic():
        make(lake.row, operator)


def test_a_service_with_nothing_to_do_is_not_asked_for(lake: Lake, operator: User) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    schedule = make(lake.row, operator, kind="service", service="clean", parameters={})

    (run,) = run_due_schedules(now=first_turn(schedule))

    assert (run.outcome, Operation.objects.count()) == ("nothing_to_do", 0)


def test_old_turns_are_forgotten_and_none_is_taken_again(lake: Lake, operator: User) -> None:
    load = make(lake.row, operator, name="load")
    copy = make(lake.row, operator, name="copy", after_schedule=load.pk)
    (loaded,) = run_due_schedules(now=first_turn(load))
    end(loaded.operation, "succeeded")
    (copied,) = run_due_schedules(now=loaded.due_at)
    end(copied.operation, "succeeded")
    ScheduleRun.objects.filter(pk=loaded.pk).update(at=timezone.now() - 30 * HOUR)

    assert do_forget_runs(before=timezone.now() - HOUR) == 1

    assert run_due_schedules(now=loaded.due_at) == []
    assert [run.schedule_name for run in runs_of(copy, operator)] == ["copy"]


def test_whoever_may_not_see_what_it_comes_after_reads_nothing_of_it(
    lake: Lake, other: Table, operator: User, nobody: User
) -> None:
    """Threat T12."""
    from controlplane.accounts.models import Grant

    load = make(lake.row, operator, name="load")
    make(other, operator, name="copy", after_schedule=load.pk)
    (loaded,) = run_due_schedules(now=first_turn(load))
    end(loaded.operation, "failed")
    run_due_schedules(now=loaded.due_at)
    Grant.objects.create(user=nobody, table=other, role="operator", granted_at=timezone.now())

    (row,) = schedules_of(other, User.objects.get(pk=nobody.pk))

    assert row.trigger == "after"
    shown = repr(row)
    assert not any(word in shown for word in (lake.row.slug, "load", str(loaded.operation_id)))
    with pytest.raises(InvalidRequest, match="schedule not found"):
        make(other, nobody, name="mine", after_schedule=load.pk)


@pytest.fixture
def other(lake: Lake) -> Table:
    """Another table, on storage."""
    from controlplane.tables.actions import do_register_table
    from tests.controlplane.conftest import SCHEMA
    from workers import create_table

    location = lake.row.location.replace("trips", "rides")
    create_table(location, name="rides", schema=SCHEMA, record_key=["id"])
    return do_register_table(location=location, slug="rides", name="Rides", by=None)
