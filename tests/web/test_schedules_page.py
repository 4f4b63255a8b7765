"""Schedules over pages, API and shell: the same schedule, refused for the same reasons."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.operations.actions import do_update_service_setting
from controlplane.operations.models import Schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.support.schedules import followed, nightly

FORM = {
    "name": "hourly",
    "what": "write",
    "parameters": '{"source": {"kind": "csv", "path": "/data/weather.csv"}}',
    "trigger": "every",
    "every_minutes": "60",
    "time_zone": "UTC",
}


def test_form_makes_and_changes_one(trips: Table, as_admin: Client) -> None:
    made = as_admin.post("/t/trips/schedules/new", FORM, follow=True)
    schedule = Schedule.objects.get()
    changes = {"trigger": "cron", "cron": "0 4 * * *", "time_zone": "Asia/Tokyo"}
    changed = as_admin.post(f"/t/trips/schedules/{schedule.pk}", {**FORM, **changes}, follow=True)

    assert "It runs as you" in made.content.decode()
    assert changed.content.decode().count("19:00:00<small>") == 5
    schedule.refresh_from_db()
    assert (schedule.trigger, schedule.every_s, schedule.time_zone) == ("cron", 0, "Asia/Tokyo")


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": "{"}, "Invalid JSON"),
        ({"parameters": "[]"}, "Enter a JSON object"),
        ({"every_minutes": ""}, "Enter when the schedule is due."),
        ({"trigger": "cron", "cron": "every day"}, "A cron expression must have five fields"),
        ({"trigger": "after"}, "Enter when the schedule is due."),
        ({"what": "restore"}, "Select a valid choice"),
        ({"parameters": '{"source": {"kind": "csv", "path": "/etc/passwd"}}'}, "outside the"),
    ],
)
def test_form_says_what_is_wrong_and_makes_nothing(
    trips: Table, as_admin: Client, changes: dict[str, str], words: str
) -> None:
    answer = as_admin.post("/t/trips/schedules/new", {**FORM, **changes})

    assert answer.status_code in (400, 422)
    assert words in answer.content.decode()
    assert Schedule.objects.count() == 0


def test_api_makes_pauses_and_deletes_one(trips: Table, as_admin: Client) -> None:
    address = "/api/v1/tables/trips/schedules/"
    body: dict[str, Any] = {
        "name": "nightly",
        "kind": "service",
        "service": "clean",
        "cron": "30 2 * * *",
        "time_zone": "Europe/Oslo",
    }

    made = as_admin.post(address, body, "application/json").json()
    own = f"{address}{made['id']}/"
    paused = as_admin.post(f"{own}pause/", {"is_paused": True}, "application/json").json()

    assert (len(made["next_due"]), made["owner"], made["words"]) == (5, "ada", "At 02:30 every day")
    assert (paused["is_paused"], paused["next_due"]) == (True, [])
    assert [row["id"] for row in as_admin.get("/api/v1/schedules/").json()] == [made["id"]]
    again = as_admin.put(own, {**body, "cron": "", "every_s": 600}, "application/json").json()
    assert (again["every_s"], again["cron"], again["is_paused"]) == (600, "", True)
    assert as_admin.delete(own).status_code == 204
    assert as_admin.get(address).json() == []


def test_page_lists_turns_with_their_reasons(trips: Table, as_admin: Client, admin: User) -> None:
    schedule = followed(trips, admin)
    schedule.refresh_from_db()
    (run,) = run_due_schedules(now=schedule.next_due_at)
    assert run.operation is not None
    type(run.operation).objects.update(state="failed")
    run_due_schedules(now=schedule.next_due_at)

    shown = as_admin.get("/t/trips/schedules").content.decode()

    assert f"/t/trips/operations/{run.operation_id}" in shown
    assert "what it comes after ended as failed" in shown


def test_shell_makes_lists_and_pauses_one(trips: Table, admin: User) -> None:
    parameters = json.dumps({"source": {"kind": "csv", "path": "/data/weather.csv"}})
    words = ["schedule", "add", "trips", "load", "--as", "ada", "--every-s", "3600"]
    call_command(*words, "--parameters", parameters, stdout=StringIO())
    schedule = Schedule.objects.get()
    call_command("schedule", "pause", str(schedule.pk))
    shown, due = StringIO(), StringIO()
    call_command("schedule", "list", stdout=shown)
    call_command("schedule", "due", "0 4 * * *", stdout=due)

    assert f"{schedule.pk}\ttrips\tload\twrite\tevery 3600 s\tada\tpaused" in shown.getvalue()
    assert due.getvalue().startswith("At 04:00 every day, UTC\n")
    with pytest.raises(CommandError, match="user nobody not found"):
        call_command("schedule", "add", "trips", "x", "--as", "nobody", "--every-s", "60")


def test_table_is_not_unregistered_under_a_schedule(
    trips: Table, as_admin: Client, admin: User
) -> None:
    nightly(trips, admin)

    plan = as_admin.get("/api/v1/tables/trips/unregister/plan/").json()

    assert plan["blockers"] == ["the schedule nightly is on: pause it"]


def test_settings_and_unregister_link_to_a_schedule_with_any_name(
    trips: Table, as_admin: Client, admin: User
) -> None:
    schedule = nightly(trips, admin)
    Schedule.objects.update(name="every night, 100 %")

    for page in ("settings", "settings/unregister"):
        html = as_admin.get(f"/t/trips/{page}").content.decode()
        assert f'<a href="/t/trips/schedules/{schedule.pk}">every night, 100 %</a>' in html


def test_page_lists_services_that_run_by_their_settings(
    trips: Table, as_admin: Client, admin: User
) -> None:
    do_update_service_setting(
        table=trips, service="clean", enabled=True, trigger_commits=30, by=admin
    )

    html = compact(as_admin.get("/t/trips/schedules").content.decode())

    assert "Automatic services" in html
    assert 'href="/t/trips/services/settings/clean"' in html
    assert "after 30 commits" in html


def test_parameters_of_a_write_are_refused_for_a_service(trips: Table, as_admin: Client) -> None:
    form = {
        "name": "nightly",
        "what": "clean",
        "trigger": "every",
        "every_minutes": 60,
        "parameters": '{"source": {"kind": "csv", "path": "/data/a.csv"}}',
    }

    answer = as_admin.post("/t/trips/schedules/new", form)

    assert answer.status_code == 422
    assert b"These are parameters of a write" in answer.content
    assert not Schedule.objects.exists()
