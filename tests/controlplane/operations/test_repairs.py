"""Repair as a person asks for it: over the API and on the page, from the plan with its evidence to
the proof.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from controlplane.audit.models import AuditEvent
from controlplane.operations.models import Operation
from controlplane.operations.planned_checks import service_checks
from controlplane.operations.table_service_proof import service_proof
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, work
from workers.table.schema_history import read_instant

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
THERE = "/api/v1/tables/trips/services/repair/"
LEFT = ".sluice-tmp-left"


@pytest.fixture
def left(lake: Lake) -> Path:
    """A file of a process that was killed long ago, in a table with a row."""
    lake.commit(OSLO)
    file = Path(lake.row.location, LEFT)
    file.write_bytes(b"half")
    os.utime(file, (0, 0))
    return file


def post(client: Client, address: str, **body: str) -> Any:
    return client.post(address, body, "application/json")


def test_repair_goes_from_its_plan_with_evidence_to_a_proof_over_the_api(
    client: Client, admin: User, left: Path, lake: Lake, working: None
) -> None:
    client.force_login(admin)
    plan = post(client, f"{THERE}plan/").json()

    answer = post(
        client, THERE, plan_hash=plan["plan_hash"], reason="the disk was full", table_name="trips"
    )
    assert left.exists()
    operation = work(Operation.objects.get())

    assert [(item["what"], item["bytes"]) for item in plan["items"]] == [(LEFT, 4)]
    assert "left by a write that did not end" in plan["items"][0]["detail"]
    assert answer.status_code == 202
    assert (operation.state, left.exists()) == ("succeeded", False), operation.message
    assert service_proof(operation).is_proved
    audited = AuditEvent.objects.filter(what="service.repair").order_by("id")
    assert [event.result for event in audited] == ["requested", "succeeded"]
    for event in audited:
        assert (event.reason, event.plan_hash) == ("the disk was full", plan["plan_hash"])
    assert audited[0].who == admin.get_username()


def test_operator_sees_the_plan_of_a_repair_and_does_not_carry_it_out(
    client: Client, operator: User, left: Path
) -> None:
    client.force_login(operator)
    plan = post(client, f"{THERE}plan/")

    refused = post(
        client, THERE, plan_hash=plan.json()["plan_hash"], reason="why not", table_name="trips"
    )

    assert (plan.status_code, refused.status_code) == (200, 403)
    assert left.exists()
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"reason": ""}, 400),
        ({"table_name": "other"}, 400),
        ({"plan_hash": "0" * 16}, 409),
    ],
)
def test_repair_wants_the_hash_the_name_and_a_reason(
    changed: dict[str, str], status: int, client: Client, admin: User, left: Path
) -> None:
    client.force_login(admin)
    shown = post(client, f"{THERE}plan/").json()["plan_hash"]
    whole = {"plan_hash": shown, "reason": "the disk was full", "table_name": "trips"}

    answer = post(client, THERE, **(whole | changed))

    assert answer.status_code == status, answer.content
    assert left.exists()
    assert not Operation.objects.exists()


def test_page_shows_the_evidence_and_asks_an_admin(
    client: Client, admin: User, operator: User, left: Path
) -> None:
    address = reverse("service", args=["trips", "repair"])
    client.force_login(operator)
    seen = client.get(address).content.decode()
    client.force_login(admin)

    page = client.get(address).content.decode()

    for shown in (seen, page):
        assert LEFT in shown
        assert "left by a write that did not end" in shown
    assert "This requires the <strong>admin</strong> role (yours: operator)" in seen
    assert "This requires the" not in page
    assert address in client.get(reverse("services", args=["trips"])).content.decode()
    assert left.exists()


@pytest.mark.parametrize("is_lost", [False, True])
def test_proof_of_a_repair_says_whether_the_files_of_readers_stand(
    is_lost: bool, admin: User, left: Path, lake: Lake, working: None
) -> None:
    operation = work(ask(lake, "repair", admin))
    stats = read_instant(lake.table, lake.table.timeline().list_completed_writes()[-1]).stats
    committed = Path(lake.row.location, stats[0].path)
    assert committed.exists()
    if is_lost:
        committed.unlink()

    [check] = [one for one in service_checks(operation) if one.name == "readers"]

    assert check.is_proved is not is_lost
    assert (committed.name in check.words) is is_lost
