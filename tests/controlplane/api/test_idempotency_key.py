"""The header `Idempotency-Key`, as a client of the API sends it with a write."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from controlplane.operations.models import Operation
from controlplane.tables.models import Table


def ask(client: Client, address: str, body: dict[str, Any], key: str) -> Any:
    return client.post(
        address, json.dumps(body), "application/json", headers={"Idempotency-Key": key}
    )


def test_the_same_insert_sent_twice_with_its_key_is_one_operation(
    client: Client, operator: User, synced: Table
) -> None:
    address, key = f"/api/v1/tables/{synced.slug}/operations/", "k1"
    body = {"source": {"kind": "csv", "path": "/data/a.csv"}, "operation": "insert"}
    client.force_login(operator)

    first = ask(client, address, body, key)
    again = ask(client, address, body, key)
    other = ask(client, address, {**body, "operation": "upsert"}, key)

    assert [first.status_code, again.status_code, other.status_code] == [202, 202, 422]
    assert first.json()["row"]["id"] == again.json()["row"]["id"]
    assert other.json()["code"] == "idempotency_key_reused"
    assert Operation.objects.count() == 1
