"""The wizard of table services on a table that exists: what is refused, per role, and what is asked
for, once.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import ServiceKind, plan_service, service_kinds
from controlplane.operations.descriptions.services import get_service
from controlplane.operations.models import Operation, ServiceSetting
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from tests.support.markup import compact
from tests.web.conftest import TRIPS
from workers import open_table

CLEAN = "/t/trips/services/run/clean?hoodie.clean.commits.retained=1"


@pytest.fixture
def as_operator(db: None) -> Client:
    user = User.objects.create_user("otto", password="a long enough password")
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def kept(trips: Table) -> str:
    """The instant before the newest, kept by a savepoint."""
    instant = [one.requested_at for one in open_table(trips.location).timeline()][-2]
    open_table(trips.location).savepoint(instant)
    return instant


def hidden_of(html: str) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html))


def ask(client: Client, path: str, **words: str) -> tuple[int, str]:
    """Look at the plan and confirm it."""
    form = hidden_of(client.get(path).content.decode())
    answer = client.post(path.partition("?")[0], {**form, **words})
    return answer.status_code, answer.get("Location", "") or answer.content.decode()


def test_plan_of_a_clean_names_its_files_and_changes_nothing(
    trips: Table, as_viewer: Client
) -> None:
    before = open_table(trips.location).timeline()

    html = as_viewer.get(CLEAN).content.decode()

    assert 'id="group-delete"' in html
    assert "Bytes to delete" in html
    assert open_table(trips.location).timeline() == before


def test_a_delete_shows_what_goes_before_and_after_it_is_requested(
    trips: Table, as_admin: Client, as_viewer: Client
) -> None:
    page = "/t/trips/services/run/delete?keys=%5B0,1%5D"
    plan = compact(as_admin.get(page).content.decode())

    status, there = ask(as_admin, page, typed_name="trips", reason="wrong rows")
    RowGrant.objects.all().delete()

    assert sorted(re.findall(r'<td data-label="id">(\d)</td>', plan)) == ["0", "1"]
    assert "Sample rows" in plan
    assert status == 302
    operation_page = compact(as_admin.get(there).content.decode())
    assert "delete 2 rows in" in operation_page
    assert "<code>[0,1]</code>" in operation_page
    event = AuditEvent.objects.get(what="service.delete", result="requested")
    assert event.details["effect"]["figures"]["rows"] == 2
    assert "sample" not in str(Operation.objects.get().plan)
    assert "[0,1]" in as_admin.get(f"/audit/{event.pk}").content.decode()
    masked = as_viewer.get(there).content.decode()
    assert "delete 2 rows in" in masked
    assert "[0,1]" not in masked


@pytest.mark.parametrize(
    ("right", "sample"), [("", []), ("rows", ["1", MASK]), ("masked", ["1", "2"])]
)
def test_sample_rows_are_masked_by_right(
    right: str, sample: list[str], trips: Table, nobody: User, tmp_path: Path, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "new.csv").write_text("id,city,ts\n1,Oslo,7\n")
    nobody.groups.add(Group.objects.get(name="operator"))
    MaskedColumn.objects.create(table=trips, path="ts")
    if right:
        RowGrant.objects.create(user=nobody, right=right)

    service, parameters = "insert_overwrite_table", {"path": f"{tmp_path}/new.csv"}
    plan = plan_service(trips, service, parameters, None, reader=nobody)

    rows = [row for row in plan.sample if row["id"] == "1"]
    assert [value for row in rows for value in row.values()] == sample


def test_operator_runs_a_clean_with_the_parameters_that_were_planned(
    trips: Table, as_operator: Client
) -> None:
    status, there = ask(as_operator, CLEAN, reason="")

    operation = Operation.objects.get()
    assert (status, there) == (302, f"/t/trips/operations/{operation.pk}")
    assert operation.service == "clean"
    assert operation.parameters["job"]["parameters"] == {"hoodie.clean.commits.retained": "1"}
    assert b"waiting for a worker" in as_operator.get(there).content.lower()


def test_viewer_sees_the_plan_and_which_role_it_takes(trips: Table, as_viewer: Client) -> None:
    html = compact(as_viewer.get(CLEAN).content.decode())

    assert "requires the <strong>operator</strong> role" in html
    assert re.search(r'class="primary" type="submit" disabled', html)
    assert as_viewer.post("/t/trips/services/run/clean", hidden_of(html)).status_code == 403
    assert not Operation.objects.exists()


def test_restore_is_an_admins_with_the_name_and_a_reason(
    kept: str, as_operator: Client, as_admin: Client
) -> None:
    path = f"/t/trips/services/run/restore?instant={kept}"

    refused, _ = ask(as_operator, path, typed_name="trips", reason="wrong")
    nameless, html = ask(as_admin, path, typed_name="", reason="wrong")
    status, there = ask(as_admin, path, typed_name="trips", reason="wrong day")

    assert (refused, nameless, status) == (403, 422, 302)
    assert "Enter the table name" in html
    assert "wrong" in html
    assert Operation.objects.get().reason == "wrong day"
    assert there.startswith("/t/trips/operations/")


def test_plan_of_a_restore_undoes_newest_first(kept: str, trips: Table, as_viewer: Client) -> None:
    newest = open_table(trips.location).timeline()[-1].requested_at

    html = as_viewer.get(f"/t/trips/services/run/restore?instant={kept}").content.decode()

    assert 'id="group-undo"' in html
    assert f"sel={newest}" in html


def test_table_that_moved_on_voids_the_plan_and_shows_the_new_one(
    trips: Table, as_operator: Client
) -> None:
    old = hidden_of(as_operator.get(CLEAN).content.decode())
    row = [{"id": 1, "city": "X", "ts": 9}]
    open_table(trips.location).write(pa.Table.from_pylist(row, schema=TRIPS))

    answer = as_operator.post(
        "/t/trips/services/run/clean", {**old, "reason": "kept while the plan is not"}
    )

    html = answer.content.decode()
    assert answer.status_code == 409
    assert "The table changed after the plan was computed" in html
    assert "kept while the plan is not" in html
    assert old["plan_hash"] not in html


def test_second_click_asks_for_nothing_more(trips: Table, as_operator: Client) -> None:
    form = hidden_of(as_operator.get(CLEAN).content.decode())

    first, again = (as_operator.post("/t/trips/services/run/clean", form) for _ in range(2))

    assert first["Location"] == again["Location"]
    assert Operation.objects.count() == 1


def test_parameter_that_is_none_is_a_sentence_and_not_a_fault(
    trips: Table, as_viewer: Client
) -> None:
    answer = as_viewer.get("/t/trips/services/run/clean?hoodie.clean.commits.retained=many")

    assert answer.status_code in (400, 409)
    assert b"No plan available" in answer.content


def test_first_look_asks_what_to_delete_and_complains_of_nothing(
    trips: Table, as_admin: Client
) -> None:
    answer = as_admin.get("/t/trips/services/run/delete")

    assert answer.status_code == 200
    assert b"Condition" in answer.content
    assert b"No plan available" not in answer.content


@pytest.mark.parametrize("kind", service_kinds(), ids=lambda kind: kind.name)
def test_the_engine_knows_every_choice_that_a_form_offers(trips: Table, kind: ServiceKind) -> None:
    problems = [
        problem_of(trips, kind.name, {field.name: next(iter(field.values), "1")})
        for field in get_service(kind.name).fields
    ]

    assert not [problem for problem in problems if "unknown" in problem]


def problem_of(table: Table, service: str, parameters: dict[str, str]) -> str:
    """What speaks against planning; empty when nothing does."""
    try:
        plan_service(table, service, parameters, None)
    except ControlPlaneError as error:
        return error.message
    return ""


def test_file_to_overwrite_with_is_planned_for_operators_and_asked_for_by_admins(
    trips: Table,
    as_admin: Client,
    as_operator: Client,
    as_viewer: Client,
    tmp_path: Path,
    settings: Settings,
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "new.csv").write_text("id,city,ts\n1,Turku,9\n")
    path = f"/t/trips/services/run/insert_overwrite_table?path={tmp_path}/new.csv"

    seen = [client.get(path).status_code for client in (as_viewer, as_operator, as_admin)]
    status, where = ask(as_admin, path, typed_name="trips", reason="a new start")

    assert seen == [403, 200, 200]
    assert status == 302, where
    operation = Operation.objects.get()
    assert (operation.service, operation.reason) == ("insert_overwrite_table", "a new start")
    assert operation.plan["figures"]["rows"] == 1


def test_run_that_waits_is_stopped_from_its_page_and_only_by_who_may(
    trips: Table, as_operator: Client, as_viewer: Client
) -> None:
    _, page = ask(as_operator, CLEAN, **{"hoodie.clean.commits.retained": "1"})
    offered = [client.get(page).content for client in (as_operator, as_viewer)]

    refused = as_viewer.post(f"{page}/cancel")
    stopped = as_operator.post(f"{page}/cancel")
    again = as_operator.post(f"{page}/cancel", follow=True)

    assert [b"Stop run" in one for one in offered] == [True, False]
    assert (refused.status_code, stopped.status_code, again.status_code) == (403, 302, 200)
    assert b"The operation has ended" in again.content
    assert Operation.objects.get().state == "cancelled"
    assert b"Stop run" not in as_operator.get(page).content


def test_service_that_nobody_offers_is_not_found(trips: Table, as_admin: Client) -> None:
    assert as_admin.get("/t/trips/services/run/defragment").status_code == 404
    assert as_admin.get("/t/trips/services/settings/restore").status_code == 404


def test_schedule_is_an_admins_and_keeps_what_was_typed(
    trips: Table, as_admin: Client, as_operator: Client
) -> None:
    path = "/t/trips/services/settings/clean"
    form = {"enabled": "on", "every_minutes": "30", "trigger_commits": "5"}

    refused = as_operator.post(path, form)
    wrong = as_admin.post(path, {**form, "every_minutes": "0"})
    saved = as_admin.post(path, {**form, "hoodie.clean.commits.retained": "7"})

    assert (refused.status_code, wrong.status_code, saved.status_code) == (403, 422, 302)
    assert b"Enter at least 1." in wrong.content
    setting = ServiceSetting.objects.get()
    assert (setting.every_s, setting.trigger_commits, setting.is_enabled) == (1800, 5, True)
    assert setting.parameters == {"hoodie.clean.commits.retained": "7"}
    cards = compact(as_admin.get("/t/trips/services").content.decode())
    assert "every 30 min after 5 commits" in cards


def test_savepoints_page_offers_what_is_not_kept_yet(
    trips: Table, busy: Table, as_viewer: Client
) -> None:
    empty = as_viewer.get("/t/trips/savepoints").content.decode()
    kept = as_viewer.get("/t/ads/savepoints").content.decode()

    assert "No savepoint" in empty
    assert "services/run/savepoint?instant=" in empty
    assert "services/run/restore?instant=" in kept
    assert "requires the <strong>operator</strong> role" in kept


def test_storage_that_is_gone_is_told_and_not_a_fault(trips: Table, as_admin: Client) -> None:
    Table.objects.update(location=trips.location + "-moved")

    answer = as_admin.get(CLEAN)

    assert answer.status_code in (400, 409, 503)
    assert b"No plan available" in answer.content
