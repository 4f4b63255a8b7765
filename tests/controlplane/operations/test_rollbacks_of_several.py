"""Several instants rolled back as one operation: over the API, by a worker, again after a death,
and by the shell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.operations.models import Operation
from controlplane.operations.table_service_proof import service_proof
from tests.controlplane.lake import Lake
from tests.controlplane.prepared_tables import rows_of
from tests.controlplane.service_jobs import ask, work
from tests.support.watched_storage import Died
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services import registry
from workers.table_services.service import ServiceRequest

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
THERE = "/api/v1/tables/trips/services/rollback_several/"
SERVICE = "rollback_several"


@pytest.fixture
def chosen(lake: Lake) -> list[str]:
    """The two newest of three commits."""
    lake.commit(OSLO)
    return [lake.commit(OSLO | {"ts": ts, "city": city}) for ts, city in ((2, "Rome"), (3, "Lima"))]


def cities(lake: Lake) -> list[str]:
    return [row["city"] for row in rows_of(Path(lake.row.location))]


def dies_between_steps(lake: Lake, operation: Operation) -> None:
    """As a worker that is killed when the first step is done, without a word."""
    job = operation.parameters["job"]
    request = ServiceRequest(job["by"], job["reason"], job["parameters"], job["plan_hash"])

    def on_progress(done: int, total: int) -> None:
        if done == 1:
            raise Died

    with pytest.raises(Died):
        registry.get_service(SERVICE).run(lake.table, request, write_options({}), on_progress)


def post(client: Client, address: str, **body: Any) -> Any:
    return client.post(address, body, "application/json")


def test_several_go_from_one_plan_to_one_proof_over_the_api(
    client: Client, admin: User, lake: Lake, chosen: list[str], working: None
) -> None:
    client.force_login(admin)
    parameters = {"instants": ",".join(chosen)}
    plan = post(client, f"{THERE}plan/", parameters=parameters).json()
    words = {"plan_hash": plan["plan_hash"], "reason": "wrong days", "table_name": "trips"}

    answer = post(client, THERE, parameters=parameters, **words)
    operation = work(Operation.objects.get())

    steps = [item["what"] for item in plan["items"] if item["effect"] == "undo"]
    assert (answer.status_code, steps) == (202, chosen[::-1])
    assert operation.state == "succeeded", operation.message
    assert operation.message == f"rolled back: {chosen[1]}, {chosen[0]}"
    assert (operation.progress_done, operation.progress_total) == (2, 2)
    assert service_proof(operation).is_proved
    assert cities(lake) == ["Oslo"]
    audited = AuditEvent.objects.filter(what="service.rollback_several").order_by("id")
    assert [(one.result, one.reason) for one in audited] == [
        ("requested", "wrong days"),
        ("succeeded", "wrong days"),
    ]


def test_table_that_moved_on_between_the_look_and_the_word_voids_the_plan(
    client: Client, admin: User, lake: Lake, chosen: list[str]
) -> None:
    client.force_login(admin)
    parameters = {"instants": ",".join(chosen)}
    shown = post(client, f"{THERE}plan/", parameters=parameters).json()["plan_hash"]
    lake.commit(OSLO | {"ts": 4})

    words = {"plan_hash": shown, "reason": "wrong days", "table_name": "trips"}
    answer = post(client, THERE, parameters=parameters, **words)

    assert answer.status_code == 409
    assert not Operation.objects.exists()


def test_operator_sees_the_plan_and_is_refused(
    client: Client, operator: User, chosen: list[str]
) -> None:
    client.force_login(operator)
    parameters = {"after": chosen[0]}
    plan = post(client, f"{THERE}plan/", parameters=parameters)
    words = {"plan_hash": plan.json()["plan_hash"], "reason": "why not", "table_name": "trips"}

    assert post(client, THERE, parameters=parameters, **words).status_code == 403
    assert not Operation.objects.exists()


def test_worker_that_comes_after_one_that_died_between_two_steps_does_the_rest(
    lake: Lake, admin: User, chosen: list[str], working: None
) -> None:
    operation = ask(lake, SERVICE, admin, parameters={"instants": ",".join(chosen)})
    dies_between_steps(lake, operation)
    assert cities(lake) == ["Rome"]

    ended = work(operation, attempt=1)

    assert ended.state == "succeeded", ended.message
    assert ended.message == f"rolled back: {chosen[1]}, {chosen[0]}"
    assert cities(lake) == ["Oslo"]
    assert service_proof(ended).is_proved


def test_operation_that_was_stopped_says_what_was_done_and_what_was_not(
    lake: Lake, admin: User, chosen: list[str], working: None
) -> None:
    operation = ask(lake, SERVICE, admin, parameters={"instants": ",".join(chosen)})
    dies_between_steps(lake, operation)
    newer = lake.commit(OSLO | {"ts": 9, "city": "Bonn"})

    ended = work(operation, attempt=1)

    assert ended.state == "failed"
    assert f"stopped at {chosen[0]}: only the newest completed write" in ended.message
    assert f"rolled back: {chosen[1]}; not rolled back: {chosen[0]}" in ended.message
    assert newer in ended.message
    assert cities(lake) == ["Bonn"]
    assert not service_proof(ended).is_proved


def test_shell_shows_the_steps_and_carries_them_out_when_it_is_confirmed(
    lake: Lake, chosen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rollback(lake.table, RollbackRequest(chosen[1], by="x", reason="mine"), write_options({}))
    words = ("table", "rollback-several", "trips", ",".join(chosen))

    call_command(*words)
    shown = capsys.readouterr().out
    call_command(*words, "--yes", "--reason", "wrong days")

    assert f"{chosen[1]} was rolled back before" in shown
    assert "nothing was changed" in shown
    assert f"rolled back: {chosen[0]}" in capsys.readouterr().out
    assert cities(lake) == ["Oslo"]
