"""PATCH and DELETE of a table, as a client of the API sends them."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.operations.actions import do_request_write
from controlplane.tables.models import Table

TRIPS = "/api/v1/tables/trips/"


def send(client: Client, method: str, address: str, body: dict[str, Any], key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.generic(method, address, json.dumps(body), "application/json", headers=headers)


def test_a_table_gets_a_slug_a_name_and_a_namespace_by_one_request_or_none_of_them(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    wanted = {"slug": "journeys", "name": "Journeys", "reason": "new words"}

    refused = send(client, "PATCH", TRIPS, {**wanted, "namespace": "Sales!"})
    after_refusal = client.get(TRIPS).json()
    changed = send(client, "PATCH", TRIPS, {**wanted, "namespace": "sales"})

    assert (refused.status_code, after_refusal["name"]) == (400, "Trips")
    assert changed.status_code == 200
    assert [changed.json()[key] for key in ("slug", "name", "namespace")] == [
        "journeys", "Journeys", "sales",
    ]  # fmt: skip
    assert client.get(TRIPS).status_code == 307


def test_a_change_sent_twice_with_its_key_is_answered_alike_under_the_former_slug_too(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    body = {"slug": "journeys", "reason": "new words"}

    first = send(client, "PATCH", TRIPS, body, key="k1")
    led_on = send(client, "PATCH", TRIPS, body, key="k1")
    again = send(client, "PATCH", led_on["Location"], body, key="k1")
    other = send(client, "PATCH", led_on["Location"], {**body, "slug": "x"}, key="k1")

    assert [first.status_code, led_on.status_code, again.status_code] == [200, 307, 200]
    assert again.json()["slug"] == first.json()["slug"] == "journeys"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert AuditEvent.objects.filter(what="table.rename").count() == 1


def test_unregistering_says_before_what_goes_and_is_answered_alike_when_sent_twice(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    body = {"reason": "moved out", "table_name": "trips"}

    plan = client.get(f"{TRIPS}unregister/plan/").json()
    done = send(client, "DELETE", TRIPS, body, key="k1")
    again = send(client, "DELETE", TRIPS, body, key="k1")
    without_key = send(client, "DELETE", TRIPS, body)

    assert plan["rows_going"] == done.json()["rows_deleted"] > 0
    assert [done.status_code, again.status_code, without_key.status_code] == [200, 200, 404]
    assert again.json() == done.json()
    assert not Table.objects.exists()


def test_an_open_operation_is_named_in_the_refusal(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    source = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    operation = do_request_write(table=synced, parameters=source, by=admin)

    refused = send(client, "DELETE", TRIPS, {"reason": "x", "table_name": "trips"})

    assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed_now")
    (address,) = refused.json()["values"]["operations"]
    assert client.get(address).json()["row"]["id"] == str(operation.pk)


def test_a_wrong_name_or_no_reason_takes_nothing_off(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)

    wrong = send(client, "DELETE", TRIPS, {"reason": "x", "table_name": "tips"})
    silent = send(client, "DELETE", TRIPS, {"reason": " ", "table_name": "trips"})

    assert [wrong.status_code, silent.status_code] == [400, 400]
    assert client.get(TRIPS).status_code == 200
