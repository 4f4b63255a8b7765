"""The connections that a request may use, and the settings that its worker receives."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_settings, find_granted_connection
from controlplane.encryption import CHANNELS, CONNECTIONS, SealBroken
from controlplane.errors import InvalidRequest


@pytest.fixture
def orders(db: None) -> Connection:
    connection = Connection.objects.create(
        name="orders",
        kind="kafka",
        settings={"bootstrap_servers": "kafka:9093", "username": "sluice"},
        sealed_secrets=CONNECTIONS.close(json.dumps({"password": "opensesame"})),
        secret_names=["password"],
        shown_address="kafka:9093",
        created_by="ada",
        changed_by="ada",
        changed_at=timezone.now(),
    )
    connection.grants.create(namespace="sales", granted_by="ada")
    return connection


def test_request_uses_a_connection_of_its_kind_that_is_granted_to_its_namespace(
    orders: Connection,
) -> None:
    assert find_granted_connection("orders", "kafka", "sales") == orders

    for name, kind, namespace in [
        ("orders", "kafka", "default"),
        ("orders", "s3", "sales"),
        ("payments", "kafka", "sales"),
    ]:
        with pytest.raises(InvalidRequest, match="is granted to the namespace"):
            find_granted_connection(name, kind, namespace)


def test_settings_are_opened_only_with_the_key_that_sealed_them(
    orders: Connection, settings: Settings
) -> None:
    assert connection_settings(orders) == {
        "bootstrap_servers": "kafka:9093",
        "username": "sluice",
        "password": "opensesame",
    }
    with pytest.raises(SealBroken):
        CHANNELS.open(orders.sealed_secrets)

    settings.SECRET_KEY = "another"

    with pytest.raises(InvalidRequest, match="must enter them again"):
        connection_settings(orders)
