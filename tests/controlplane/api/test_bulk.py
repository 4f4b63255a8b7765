"""Several of a kind in one request: each member is judged as it would be alone, and the whole is
refused for its form before the first effect.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.monitoring.models import Alert, Silence
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.tables.models import Table

CANCEL, SERVICES = "/api/v1/bulk/cancel/", "/api/v1/bulk/services/"
SILENCE, TABLES = "/api/v1/bulk/silence/", "/api/v1/bulk/tables/"


def post(client: Client, address: str, body: object, **headers: str) -> Any:
    return client.post(address, body, "application/json", headers=headers)


def outcomes(response: Any) -> list[tuple[str, int, str]]:
    assert response.status_code == 200, response.content
    listed = response.json()["outcomes"]
    return [(outcome["member"], outcome["status"], outcome["code"]) for outcome in listed]


@pytest.fixture
def write(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return do_request_write(table=synced, parameters=parameters, by=admin)


def test_each_operation_is_cancelled_or_refused_as_it_would_be_alone(
    client: Client, operator: User, write: Operation
) -> None:
    client.force_login(operator)
    unknown = str(uuid.uuid4())
    body = {"operations": [unknown, str(write.pk)], "reason": "wrong file"}

    first = post(client, CANCEL, body)
    again = post(client, CANCEL, body)

    assert outcomes(first) == [(unknown, 404, "not_found"), (str(write.pk), 202, "")]
    assert (first.json()["done"], first.json()["refused"]) == (1, 1)
    assert outcomes(again)[1] == (str(write.pk), 409, "not_allowed_now")
    recorded = AuditEvent.objects.filter(what="operation.cancel")
    assert [(event.who, event.reason) for event in recorded] == [(operator.username, "wrong file")]


@pytest.mark.parametrize("address", [CANCEL, SILENCE, SERVICES])
def test_a_viewer_changes_nothing_with_many_either(
    client: Client, viewer: User, synced: Table, write: Operation, address: str
) -> None:
    now = timezone.now()
    alert = Alert.objects.create(
        table=synced, check_name="mirror", verdict="bad", unwell_at=now, fired_at=now
    )
    bodies: dict[str, dict[str, object]] = {
        CANCEL: {"operations": [str(write.pk)]},
        SILENCE: {"alerts": [alert.pk], "hours": 1, "reason": "known"},
        SERVICES: {"service": "clean", "tables": ["trips"]},
    }
    client.force_login(viewer)
    before = AuditEvent.objects.count()

    refused = outcomes(post(client, address, bodies[address]))

    assert [(status, code) for _, status, code in refused] == [(403, "permission_denied")]
    assert AuditEvent.objects.count() == before
    assert not Silence.objects.exists()


@pytest.mark.parametrize(
    "operations",
    [
        [],
        ["no-id"],
        [str(uuid.UUID(int=number)) for number in range(101)],
        [str(uuid.UUID(int=1))] * 2,
    ],
    ids=["none", "no id", "too many", "twice"],
)
def test_a_wrong_form_is_refused_before_the_first_effect(
    client: Client, operator: User, write: Operation, operations: list[str]
) -> None:
    client.force_login(operator)
    members = operations if len(operations) != 1 else [str(write.pk), *operations]

    refused = post(client, CANCEL, {"operations": members})

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    write.refresh_from_db()
    assert write.state == "queued"


def test_a_service_runs_once_on_each_table_however_often_it_is_asked_for(
    client: Client, operator: User, synced: Table
) -> None:
    client.force_login(operator)
    body = {"service": "archive", "tables": ["trips", "elsewhere"]}

    first = post(client, SERVICES, body, **{"Idempotency-Key": "night"})
    again = post(client, SERVICES, body, **{"Idempotency-Key": "night"})

    assert outcomes(first)[1] == ("elsewhere", 404, "not_found")
    assert first.json()["outcomes"][0] == again.json()["outcomes"][0]
    assert Operation.objects.filter(service="archive").count() <= 1


def test_what_takes_data_away_is_refused_as_a_whole(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)

    refused = post(client, SERVICES, {"service": "restore", "tables": ["trips"], "reason": "x"})

    assert refused.status_code == 400
    assert not Operation.objects.exists()


def test_several_alerts_are_silenced(client: Client, operator: User, synced: Table) -> None:
    now = timezone.now()
    keys = [
        Alert.objects.create(
            table=synced, check_name=check, verdict="bad", unwell_at=now, fired_at=now
        ).pk
        for check in ("mirror", "skew")
    ]
    client.force_login(operator)

    answer = post(client, SILENCE, {"alerts": keys, "hours": 2, "reason": "known"})

    assert outcomes(answer) == [(str(key), 201, "") for key in keys]
    assert set(Silence.objects.values_list("check_name", "reason")) == {
        ("mirror", "known"),
        ("skew", "known"),
    }


def test_tables_are_registered_each_for_itself(client: Client, admin: User, synced: Table) -> None:
    beside = Path(synced.location).parent
    wishes = [
        {"location": str(beside / "rides"), "slug": "rides"},
        {"location": str(beside / "other"), "slug": "trips"},
    ]
    client.force_login(admin)

    answer = post(client, TABLES, {"tables": wishes})

    assert outcomes(answer) == [("rides", 201, ""), ("trips", 400, "invalid_request")]
    assert set(Table.objects.values_list("slug", flat=True)) == {"rides", "trips"}
