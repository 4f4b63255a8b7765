"""An operation that has ended is asked for once more by the road of the first request."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import pre_save
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.operations.actions import do_request_again, do_request_write, plan_service
from controlplane.operations.log_queries import log_page
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given
from controlplane.tables.masks import MASK
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, ask_rollback

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def ended(operation: Operation, state: str = "failed") -> Operation:
    Operation.objects.filter(pk=operation.pk).update(state=state)
    operation.refresh_from_db()
    return operation


@pytest.fixture
def write(lake: Lake, admin: User) -> Operation:
    parameters = {
        "source": {"kind": "csv", "path": "/data/weather.csv"},
        "stream": "wind",
        "options": {"sluice.writer.name": "loader"},
    }
    return ended(do_request_write(table=lake.row, parameters=parameters, by=admin))


def request_again(
    client: Client, person: User, operation: Operation, key: str = "", **body: Any
) -> tuple[int, dict[str, Any]]:
    client.force_login(person)
    answer = client.post(
        f"/api/v1/operations/{operation.pk}/again/", body, "application/json",
        headers={"Idempotency-Key": key or str(uuid.uuid4())},
    )  # fmt: skip
    return answer.status_code, answer.json()


def job_of(answer: dict[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = Operation.objects.get(pk=answer["row"]["id"]).parameters["job"]
    return job


def test_a_write_is_another_operation_with_the_same_parameters(
    write: Operation, client: Client, operator: User
) -> None:
    status, answer = request_again(client, operator, write, "k1", reason="the disk was full")
    again_status, same = request_again(client, operator, write, "k1", reason="the disk was full")

    first, second = write.parameters["job"], job_of(answer)
    own = ("operation_id", "session_id", "run_dir")
    assert (status, again_status, same["row"]["id"]) == (202, 202, answer["row"]["id"])
    assert second["options"].pop("sluice.operation.id") == answer["row"]["id"]
    assert first["options"].pop("sluice.operation.id") == str(write.pk)
    assert all(first[name] != second[name] for name in own)
    assert {**second, **{name: first[name] for name in own}} == first
    assert (answer["row"]["requested_by"], answer["row"]["reason"]) == ("olaf", "the disk was full")
    words = [row.message for row in log_page(uuid.UUID(answer["row"]["id"]), is_whole=True).rows]
    assert f"asked for again, after operation {write.pk}" in words


def test_parameters_are_changed_by_name_and_checked(
    write: Operation, client: Client, operator: User
) -> None:
    other = {"source": {"kind": "csv", "path": "/data/other.csv"}}
    status, answer = request_again(client, operator, write, parameters=other)
    unknown, _ = request_again(client, operator, write, parameters={"sauce": "hot"})
    outside = {"source": {"kind": "csv", "path": "/etc/passwd"}}
    refused, _ = request_again(client, operator, write, parameters=outside)

    assert (status, unknown, refused) == (202, 400, 400)
    assert job_of(answer)["source"]["path"] == "/data/other.csv"
    assert job_of(answer)["stream"] == "wind"


def test_an_open_one_and_a_viewer_are_refused(
    write: Operation, client: Client, operator: User, viewer: User
) -> None:
    assert request_again(client, viewer, write)[0] == 403
    ended(write, "running")
    assert request_again(client, operator, write)[0] == 409

    assert Operation.objects.count() == 1


def test_what_takes_data_away_needs_a_new_plan_a_name_and_an_admin(
    lake: Lake, client: Client, admin: User, operator: User
) -> None:
    lake.commit(OSLO)
    newest = lake.commit({"id": "2", "ts": 2, "city": "Bergen"})
    rollback = ended(ask_rollback(lake, newest, admin))
    words = {"reason": "once more", "table_name": "trips"}
    planned = {**words, "plan_hash": rollback.plan_hash}

    assert request_again(client, operator, rollback, **planned)[0] == 403
    assert request_again(client, admin, rollback, **words)[0] == 409
    assert request_again(client, admin, rollback, **{**planned, "reason": ""})[0] == 400
    assert request_again(client, admin, rollback, **planned, parameters={"instant": "1"})[0] == 400
    assert request_again(client, admin, rollback, **planned)[0] == 202


def test_a_service_goes_by_a_plan_made_anew(lake: Lake, client: Client, admin: User) -> None:
    lake.commit(OSLO)
    savepoint = ended(ask(lake, "savepoint", admin, parameters={"comment": "before the load"}))
    changed = {**savepoint.parameters["job"]["parameters"], "comment": "after the load"}
    fresh = plan_service(lake.row, "savepoint", changed, admin).plan_hash
    comment = {"comment": "after the load"}

    void, _ = request_again(client, admin, savepoint, plan_hash="0" * 16, parameters=comment)
    wrong, _ = request_again(client, admin, savepoint, parameters={"comment": 7})
    status, answer = request_again(client, admin, savepoint, plan_hash=fresh, parameters=comment)
    busy, _ = request_again(client, admin, savepoint, plan_hash=fresh, parameters=comment)

    assert (void, wrong, status, busy) == (409, 400, 202, 409)
    assert job_of(answer)["parameters"] == changed


def test_the_page_has_a_button_for_a_write_and_a_plan_for_a_service(
    write: Operation, lake: Lake, client: Client, admin: User, viewer: User
) -> None:
    lake.commit(OSLO)
    savepoint = ended(ask(lake, "savepoint", admin, parameters={"comment": "a b"}))
    client.force_login(admin)
    page = f"/t/trips/operations/{write.pk}"

    pressed = client.post(f"{page}/again", {"idempotency_key": str(uuid.uuid4())})
    service_page = client.get(f"/t/trips/operations/{savepoint.pk}").content

    assert b"Run again" in client.get(page).content
    assert b'href="/t/trips/services/run/savepoint?comment=a+b&amp;instant=' in service_page
    assert pressed.status_code == 302
    again = Operation.objects.filter(kind="write").exclude(pk=write.pk).get()
    assert pressed["Location"] == f"/t/trips/operations/{again.pk}"
    client.force_login(viewer)
    assert b"Run again" not in client.get(page).content


def test_changed_choice_of_rows_is_masked_in_the_audit(lake: Lake, admin: User) -> None:
    """Threat T12: a predicate and keys hold values of rows."""
    lake.commit(OSLO)
    first = ended(ask(lake, "delete", admin, parameters={"predicate": "city = 'Oslo'"}))
    changed = {"predicate": "city <> 'Secret'"}
    plan_hash = plan_service(lake.row, "delete", changed, admin).plan_hash
    given = Given(reason="gone", typed_name="trips", plan_hash=plan_hash)

    do_request_again(first, changed, given, admin)

    details = [event.details for event in AuditEvent.objects.order_by("pk")]
    assert details[-1]["changed"] == {"predicate": MASK}
    assert not [one for one in details if "Secret" in str(one) or "Oslo" in str(one)]


def test_again_is_recorded_with_its_request_or_neither_is(synced: Table, admin: User) -> None:
    source = {"kind": "csv", "path": "/data/weather.csv"}
    first = do_request_write(table=synced, parameters={"source": source}, by=admin)
    ended(first)

    def fail(instance: AuditEvent, **_more: object) -> None:
        if instance.what == "operation.again":
            raise OSError("the disk of the audit is full")

    pre_save.connect(fail, sender=AuditEvent)
    try:
        with pytest.raises(OSError, match="the disk of the audit"):
            do_request_again(first, {}, Given(), admin)
    finally:
        pre_save.disconnect(fail, sender=AuditEvent)

    assert Operation.objects.get() == first
    assert not AuditEvent.objects.filter(what="operation.write").exclude(
        details__operation=str(first.pk)
    )


def test_again_names_its_origin_and_the_audit_says_what_changed(
    synced: Table, admin: User, client: Client
) -> None:
    source = {"kind": "csv", "path": "/data/weather.csv"}
    first = do_request_write(table=synced, parameters={"source": source}, by=admin)
    Operation.objects.update(state="failed")
    client.force_login(admin)
    address = f"/t/{synced.slug}/operations/{first.pk}/again"
    form = {"idempotency_key": str(uuid.uuid4()), "parameters": '{"operation": "insert"}'}

    for _ in range(2):  # The second click is the same request.
        leads_to = client.post(address, form)["Location"]
    refused = client.post(address, {**form, "parameters": "["})

    again = Operation.objects.exclude(pk=first.pk).get()
    assert leads_to.endswith(str(again.pk))
    assert (again.again_of, again.parameters["job"]["operation"]) == (first, "insert")
    event = AuditEvent.objects.get(what="operation.again")
    assert event.details["again_of"] == str(first.pk)
    assert event.details["changed"] == {"operation": {"before": "upsert", "after": "insert"}}
    assert str(first.pk) in client.get(leads_to).content.decode()
    assert refused.status_code == 400
