"""Admins change connections; a stored secret never follows a change of its address."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.audit.models import AuditEvent
from controlplane.connections.actions import (
    ConnectionWish,
    do_change_connection,
    do_create_connection,
    do_delete_connection,
    do_grant_connection,
    do_test_connection,
)
from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_rows, connection_settings
from controlplane.errors import InvalidRequest

SETTINGS = {
    "bootstrap_servers": "kafka:9093",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "username": "sluice",
}
ORDERS = ConnectionWish(
    name="orders", kind="kafka", settings=SETTINGS, secrets={"password": "opensesame"}
)


def settings(**changed: Any) -> ConnectionWish:
    """The same connection with other settings, and the secrets that are stored."""
    return replace(ORDERS, settings={**SETTINGS, **changed}, secrets=None)


def test_connection_is_stored_shown_without_its_secret_and_deleted(admin: User) -> None:
    row = do_create_connection(ORDERS, by=admin)
    do_grant_connection("orders", ["sales", "default"], by=admin)
    do_grant_connection("orders", ["sales"], by=admin)

    assert (row.address, row.secrets, row.namespaces) == ("kafka:9093", ["password"], [])
    assert connection_rows(admin)[0].namespaces == ["sales"]
    assert "opensesame" not in repr(connection_rows(admin))
    do_delete_connection("orders", by=admin)
    assert connection_rows(admin) == []
    assert list(AuditEvent.objects.order_by("pk").values_list("what", flat=True)) == [
        "connection.create", "connection.grant", "connection.grant", "connection.delete"
    ]  # fmt: skip
    grant = AuditEvent.objects.order_by("pk")[2]
    assert (grant.details["given"], grant.details["taken"]) == ([], ["default"])


@pytest.mark.parametrize(
    "changed",
    [
        {"bootstrap_servers": "attacker:9093"},
        {"bootstrap_servers": "kafka:9093,attacker:9093"},
        {"security_protocol": "SASL_PLAINTEXT"},
        {"sasl_mechanism": "PLAIN"},
        {"security_protocol": "PLAINTEXT", "sasl_mechanism": "", "username": ""},
    ],
)
def test_change_of_where_a_secret_is_sent_needs_the_secret_again(
    admin: User, changed: dict[str, str]
) -> None:
    do_create_connection(ORDERS, by=admin)

    with pytest.raises(InvalidRequest):
        do_change_connection(settings(**changed), by=admin)

    stored = connection_settings(Connection.objects.get())
    assert stored == {**SETTINGS, "password": "opensesame"}
    secrets = {"password": "again"} if changed.get("security_protocol") != "PLAINTEXT" else {}
    do_change_connection(replace(settings(**changed), secrets=secrets), by=admin)
    assert connection_settings(Connection.objects.get()).get("password", "") != "opensesame"


def test_other_changes_keep_the_secret_and_forget_the_last_test(admin: User) -> None:
    do_create_connection(ORDERS, by=admin)
    Connection.objects.update(tested_at="2026-11-20T10:00:00Z", test_problem="no such host")

    row = do_change_connection(settings(username="other"), by=admin)

    assert (row.tested_at, row.test_problem) == (None, "")
    stored = connection_settings(Connection.objects.get())
    assert (stored["username"], stored["password"]) == ("other", "opensesame")


@pytest.mark.parametrize(
    "wish",
    [
        replace(ORDERS, name="Orders"),
        replace(ORDERS, name="../orders"),
        replace(ORDERS, kind="mysql"),
        replace(ORDERS, secrets={}),
        replace(ORDERS, secrets={"password": "x", "token": "y"}),
        replace(ORDERS, settings={**SETTINGS, "password": "opensesame"}),
        replace(ORDERS, settings={**SETTINGS, "sasl.jaas.config": "x"}),
        replace(ORDERS, settings={**SETTINGS, "sasl_mechanism": "GSSAPI"}),
    ],
)
def test_invalid_connections_are_refused(admin: User, wish: ConnectionWish) -> None:
    with pytest.raises(InvalidRequest) as refused:
        do_create_connection(wish, by=admin)

    assert "opensesame" not in str(refused.value)
    assert not Connection.objects.exists()


def test_kind_stays_and_names_are_unique(admin: User) -> None:
    do_create_connection(ORDERS, by=admin)

    with pytest.raises(InvalidRequest, match="has this name"):
        do_create_connection(ORDERS, by=admin)
    with pytest.raises(InvalidRequest, match="cannot change"):
        do_change_connection(replace(ORDERS, kind="s3"), by=admin)


def test_only_admins_of_everything_change_connections(operator: User, admin: User) -> None:
    do_create_connection(ORDERS, by=admin)

    for change in (
        lambda: do_create_connection(replace(ORDERS, name="other"), by=operator),
        lambda: do_change_connection(ORDERS, by=operator),
        lambda: do_grant_connection("orders", ["default"], by=operator),
        lambda: do_delete_connection("orders", by=operator),
    ):
        with pytest.raises(PermissionDenied):
            change()


@pytest.mark.parametrize(
    ("kind", "reach", "secrets", "why"),
    [
        (
            "s3",
            {"bucket": "landing", "endpoint": "http://127.0.0.1:1", "access_key_id": "key"},
            {"secret_access_key": "opensesame"},
            "the bucket cannot be listed",
        ),
        (
            "postgresql",
            {"host": "127.0.0.1", "port": 1, "database": "shop", "username": "reader"},
            {"password": "opensesame"},
            "the database did not let the connection in",
        ),
    ],
)
def test_test_stores_why_it_is_not_reached(
    admin: User, kind: str, reach: dict[str, Any], secrets: dict[str, str], why: str
) -> None:
    wish = ConnectionWish(name="far", kind=kind, settings=reach, secrets=secrets)
    do_create_connection(wish, by=admin)

    test = do_test_connection("far", by=admin)

    row = connection_rows(admin)[0]
    assert (test.is_reached, row.test_problem, row.tested_by) == (False, test.problem, "ada")
    assert why in test.problem
    assert "opensesame" not in test.problem
