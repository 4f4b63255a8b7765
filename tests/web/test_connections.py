"""The pages of named connections, which show no secret again."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.connections.actions import (
    ConnectionWish,
    do_create_connection,
    do_grant_connection,
)
from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_settings
from controlplane.tables.models import Table

SECRET = "opensesame-on-pages"
SASL = {
    "bootstrap_servers": "127.0.0.1:1",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "username": "sluice",
    "password": SECRET,
}


@pytest.fixture
def orders(as_admin: Client) -> Connection:
    answer = as_admin.post("/connections/new/?kind=kafka", {"name": "kept", **SASL})
    assert answer.status_code == 302, answer.content.decode()
    return Connection.objects.get()


def test_connection_is_made_granted_and_deleted_by_its_forms(
    orders: Connection, as_admin: Client
) -> None:
    as_admin.post("/connections/kept/grants", {"namespaces": "default, sales"})
    texts = [as_admin.get(page).content.decode() for page in ("/connections", "/connections/kept")]

    assert connection_settings(orders)["password"] == SECRET
    assert all("default, sales" in page and "127.0.0.1:1" in page for page in texts)
    assert not any(SECRET in page for page in texts)
    assert as_admin.post("/connections/kept/delete").status_code == 302
    assert not Connection.objects.exists()


def test_empty_password_keeps_the_stored_one_until_the_address_changes(
    orders: Connection, as_admin: Client
) -> None:
    same = {**SASL, "password": "", "username": "other"}

    saved = as_admin.post("/connections/kept", same)
    moved = as_admin.post("/connections/kept", {**same, "bootstrap_servers": "attacker:9093"})

    orders.refresh_from_db()
    assert saved.status_code == 302
    assert connection_settings(orders) == {**SASL, "username": "other"}
    assert moved.status_code == 400
    assert "must be entered again" in moved.content.decode()


def test_wrong_setting_is_shown_at_its_field_and_no_secret_comes_back(as_admin: Client) -> None:
    refused = as_admin.post(
        "/connections/new/?kind=kafka", {"name": "x", **SASL, "bootstrap_servers": "kafka"}
    )

    page = refused.content.decode()
    assert refused.status_code == 400
    assert 'id="bootstrap_servers-problem"' in page
    assert SECRET not in page


def test_test_button_shows_why_the_connection_is_not_reached(admin: User, as_admin: Client) -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "SSL"}
    authority = {"ca_certificate": "no certificate"}
    do_create_connection(ConnectionWish(name="far", kind="kafka", settings=settings), by=admin)
    Connection.objects.update(settings={**settings, **authority})

    page = as_admin.post("/connections/far/test", follow=True).content.decode()

    assert "far was not reached: the setting must be certificates in PEM" in page
    assert Connection.objects.get().test_problem.startswith("the setting must be")


def test_forms_of_sinks_and_writes_offer_the_connections_of_the_namespace(
    orders: Connection, admin: User, as_admin: Client, busy: Table
) -> None:
    pages = (f"/t/{busy.slug}/sinks/start", f"/t/{busy.slug}/write?kind=kafka")
    assert not any("kept · 127" in as_admin.get(page).content.decode() for page in pages)
    do_grant_connection("kept", [busy.namespace], by=admin)

    assert all("kept · 127.0.0.1:1" in as_admin.get(page).content.decode() for page in pages)
