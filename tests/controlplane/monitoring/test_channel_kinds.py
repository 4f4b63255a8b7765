"""Mail reaches a mail server, and services are reached by addresses that were judged."""

from __future__ import annotations

from email.message import Message as Mail

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MailHandler
from django.contrib.auth.models import User
from pytest_django import Settings

from controlplane.errors import InvalidRequest
from controlplane.monitoring.channels.actions import (
    ChannelSpec,
    do_create_channel,
)
from controlplane.monitoring.channels.services import SERVICES
from controlplane.monitoring.models import Channel
from controlplane.tables.models import Table
from tests.controlplane.monitoring.channel_steps import (
    deliver_due,
    fire,
    newest,
)
from workers.processes import start_on_free_ports

SERVICE_ADDRESSES = {
    "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "gchat": "gchat://workspace/webhookkey/webhooktoken",
    "opsgenie": "opsgenie://0123456789abcdef0123456789abcdef",
    "pagerduty": "pagerduty://A1BRTD4JD@TIiajkdnlazkcOXrIdevi7F",
    "pover": "pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "tgram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
    "wxteams": "wxteams://" + "a" * 80,
}


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="trips", name="Trips", location="/lake/trips")


def test_mail_arrives_at_a_mail_server(table: Table, admin: User, settings: Settings) -> None:
    received: list[Mail] = []

    class Handler(MailHandler):
        def handle_message(self, message: Mail) -> None:
            received.append(message)

    def start(port: int) -> Controller:
        server = Controller(Handler(), hostname="127.0.0.1", port=port)
        server.start()
        return server

    server = start_on_free_ports(start)
    try:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST = "127.0.0.1"
        settings.EMAIL_PORT = server.port
        settings.EMAIL_USE_TLS = False
        receivers = "ada@example.org, olaf@example.org"
        do_create_channel(
            ChannelSpec(name="mail", kind="mail", address=receivers, group_s=0), by=admin
        )
        fire(table)
        assert deliver_due() == 1
    finally:
        server.stop()

    [mail] = received
    assert mail["To"] == receivers
    assert mail["Subject"] == "[critical] Trips: Compaction keeps up"
    assert "12 <b>behind" in str(mail.get_payload())
    assert newest(admin).deliveries[0].state == "sent"


def test_a_mail_server_that_is_away_is_tried_again(
    table: Table, admin: User, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    do_create_channel(
        ChannelSpec(name="mail", kind="mail", address="a@example.org", group_s=0), by=admin
    )
    fire(table)
    deliver_due()

    row = newest(admin)
    assert (row.state, row.deliveries[0].state) == ("waiting", "failed")


@pytest.mark.parametrize("scheme", sorted(SERVICES))
def test_services_are_reached_by_judged_addresses_only(
    scheme: str, table: Table, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat T4, through apprise: a service's name that means loopback is refused, once for all."""
    resolved: list[str] = []

    def inside(host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        resolved.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    address = SERVICE_ADDRESSES[scheme]
    do_create_channel(
        ChannelSpec(name="service", kind="apprise", address=address, group_s=0), by=admin
    )
    fire(table)
    monkeypatch.setattr("socket.getaddrinfo", inside)
    deliver_due()

    row = newest(admin)
    assert len(set(resolved)) == 1, "our own resolving, and nothing of the plugin's"
    assert row.state == "dead"
    assert "not on the public Internet" in row.deliveries[0].problem


@pytest.mark.parametrize(
    "address",
    [
        *("json://127.0.0.1/", "ntfy://a.example/topic", "gotify://a.example/token"),
        *("mailto://u:p@a.example", "syslog://", "dbus://", "smb://a", "https://a.example/", "x"),
        *("discord://", "tgram://nothing"),
    ],
)
def test_other_addresses_of_services_are_refused(address: str, admin: User) -> None:
    with pytest.raises(InvalidRequest):
        do_create_channel(ChannelSpec(name="x", kind="apprise", address=address), by=admin)

    assert not Channel.objects.exists()
