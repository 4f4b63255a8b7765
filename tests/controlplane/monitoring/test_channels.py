"""Word of alerts reaches who should have it, once for many tables, again until it is taken, and
shows nobody what opens a channel.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Verdict
from controlplane.monitoring.actions import do_silence
from controlplane.monitoring.channels.actions import (
    NewChannel,
    do_change_channel,
    do_create_channel,
    do_delete_channel,
    do_test_channel,
)
from controlplane.monitoring.channels.deliveries import (
    ATTEMPTS_MAX,
    HOLD,
    KEPT_FOR,
    delete_old_messages,
    do_deliver,
    get_backoff_s,
    list_due_messages,
)
from controlplane.monitoring.channels.queries import list_channels, list_messages
from controlplane.monitoring.channels.senders import compute_signature
from controlplane.monitoring.models import Channel, Delivery, Message
from controlplane.tables.models import Table
from tests.controlplane.monitoring.channel_steps import (
    HUSH,
    MINUTE,
    deliver_due,
    fire,
    judge,
    newest,
    said,
    wish,
)
from tests.support.receivers import Receiver


@pytest.fixture
def table(db: None) -> Table:
    return Table.objects.create(slug="trips", name="Trips", location="/lake/trips")


def test_an_alert_that_fires_is_posted_signed_and_so_is_its_end(
    table: Table, webhook: NewChannel, receiver: Receiver, admin: User
) -> None:
    fire(table)
    assert deliver_due() == 1
    judge(table, "good", timezone.now())
    assert deliver_due() == 1
    assert deliver_due(HOLD) == 0, "what was taken is not sent again"

    fired, resolved = receiver.received
    headers = fired.headers
    expected = compute_signature(
        webhook.secret, headers["webhook-id"], headers["webhook-timestamp"], fired.body
    )
    said = json.loads(fired.body)
    assert headers["webhook-signature"] == expected
    assert fired.path == f"/{HUSH}"
    assert (said["about"], said["severity"], said["count"]) == ("fired", "critical", 1)
    assert said["alerts"][0]["table"] == "trips"
    assert json.loads(resolved.body)["about"] == "resolved"
    assert headers["webhook-id"] == f"msg_{list_messages(admin)[1].id.replace('-', '')}"
    assert [row.state for row in list_messages(admin)] == ["sent", "sent"]


def test_many_tables_of_one_rule_are_one_message(
    table: Table, receiver: Receiver, admin: User
) -> None:
    do_create_channel(wish(receiver, group_s=60), by=admin)
    other = Table.objects.create(slug="ads", name="Ads", location="/lake/ads")
    fire(table)
    third = Table.objects.create(slug="bids", name="Bids", location="/lake/bids")
    fire(other)
    fire(third, name="cleaning")

    assert deliver_due() == 0, "the window is open"
    assert deliver_due(2 * MINUTE) == 2

    together = next(body for body in map(said, receiver.received) if body["check"] == "compaction")
    assert [alert["table"] for alert in together["alerts"]] == ["ads", "trips"]


def test_what_ends_before_its_window_is_no_message(
    table: Table, receiver: Receiver, admin: User
) -> None:
    do_create_channel(wish(receiver, group_s=60), by=admin)
    fire(table)
    judge(table, "good", timezone.now())

    assert not Message.objects.exists()


def test_a_receiver_that_refuses_is_asked_again_ever_later_and_then_given_up(
    table: Table, webhook: NewChannel, receiver: Receiver, admin: User
) -> None:
    receiver.statuses = [500] * ATTEMPTS_MAX
    fire(table)
    after = timedelta()
    for number in range(1, ATTEMPTS_MAX + 1):
        assert deliver_due(after) == 1, number
        assert deliver_due(after) == 0, "not before its time"
        after += timedelta(seconds=get_backoff_s(number) + 5)
    judge(table, "good", timezone.now())

    dead = newest(admin)
    assert (dead.state, [row.answer_code for row in dead.deliveries]) == ("dead", [500] * 8)
    assert deliver_due(timedelta(days=1)) == 0
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    assert dead.deliveries[0].next_at is not None
    assert dead.deliveries[-1].next_at is None
    assert Message.objects.count() == 1, "whoever never learned of it learns nothing of its end"


def test_waits_grow_and_have_an_end() -> None:
    waits = [get_backoff_s(number) for number in range(1, ATTEMPTS_MAX + 1)]

    assert waits[:3] == [10, 30, 90]
    assert waits == sorted(waits)
    assert max(waits) == 7200


def test_a_redirect_is_no_success(
    table: Table, webhook: NewChannel, receiver: Receiver, admin: User
) -> None:
    receiver.statuses = [307]
    receiver.location = f"http://127.0.0.1:{receiver.port}/elsewhere"
    fire(table)
    deliver_due()

    [delivery] = newest(admin).deliveries
    assert (delivery.state, delivery.answer_code) == ("failed", 307)
    assert "not followed" in delivery.problem
    assert len(receiver.received) == 1


def test_one_attempt_is_made_once_whoever_else_tries(
    table: Table, webhook: NewChannel, receiver: Receiver
) -> None:
    fire(table)
    [key] = list_due_messages(timezone.now())
    again: list[bool] = []

    def sender(message: Message) -> int:
        again.append(do_deliver(key))  # As a second worker does while the first one sends.
        return 200

    assert do_deliver(key, sender=sender)
    assert not do_deliver(key)

    assert again == [False]
    assert Delivery.objects.count() == 1


def test_what_a_killed_worker_had_is_tried_again(
    table: Table, webhook: NewChannel, receiver: Receiver, admin: User
) -> None:
    class Killed(BaseException):
        """As SIGKILL: nobody notes anything."""

    def sender(message: Message) -> int:
        raise Killed

    fire(table)
    [key] = list_due_messages(timezone.now())
    with pytest.raises(Killed):
        do_deliver(key, sender=sender)

    assert deliver_due(HOLD / 2) == 0, "it may still send"
    deliver_due(HOLD + MINUTE)
    assert deliver_due(HOLD + 2 * MINUTE) == 1
    row = newest(admin)
    assert (row.state, [each.state for each in row.deliveries]) == ("sent", ["lost", "sent"])
    assert len(receiver.received) == 1


def test_silence_keeps_it_back_until_it_is_over(
    table: Table, webhook: NewChannel, receiver: Receiver, operator: User
) -> None:
    judge(table, "bad", timezone.now() - 2 * MINUTE)
    do_silence(table=table, check="compaction", hours=1, reason="known", by=operator)
    judge(table, "bad", timezone.now())
    assert deliver_due() == 0

    judge(table, "bad", timezone.now() + timedelta(hours=2))

    assert deliver_due(timedelta(hours=2)) == 1


@pytest.mark.parametrize(
    ("changed", "verdict", "wanted"),
    [
        ({"severity_min": "critical"}, "warn", 0),
        ({"severity_min": "critical"}, "bad", 1),
        ({"checks": ["cleaning"]}, "bad", 0),
        ({"checks": ["compaction"]}, "bad", 1),
        ({"namespaces": ["sales"]}, "bad", 0),
        ({"is_paused": True}, "bad", 0),
    ],
)
def test_a_channel_hears_what_it_wants_to(
    table: Table,
    receiver: Receiver,
    admin: User,
    changed: dict[str, object],
    verdict: Verdict,
    wanted: int,
) -> None:
    Table.objects.create(slug="s", name="s", location="/lake/s", namespace="sales")
    do_create_channel(wish(receiver, **changed), by=admin)

    fire(table, verdict)

    assert deliver_due() == wanted


def test_what_gets_worse_is_said_again_and_what_stays_is_not(
    table: Table, webhook: NewChannel, receiver: Receiver
) -> None:
    fire(table, "warn")
    deliver_due()
    judge(table, "warn", timezone.now())
    judge(table, "bad", timezone.now())
    judge(table, "bad", timezone.now())
    deliver_due()

    assert [said(each)["severity"] for each in receiver.received] == ["warning", "critical"]


def test_slack_gets_its_own_body_in_which_names_call_nobody(
    table: Table, receiver: Receiver, admin: User
) -> None:
    Table.objects.update(name="@channel <!here>")
    table.refresh_from_db()
    made = do_create_channel(wish(receiver, body_format="slack"), by=admin)
    fire(table)
    deliver_due()

    [request] = receiver.received
    assert made.secret == ""
    assert "webhook-signature" not in request.headers
    assert set(said(request)) == {"text", "attachments"}
    assert "@channel" not in request.body.decode()
    assert "<" not in json.dumps(said(request))


def test_what_opens_a_channel_is_in_no_answer_no_audit_and_not_in_the_database(
    table: Table, webhook: NewChannel, receiver: Receiver, admin: User
) -> None:
    do_change_channel(webhook.channel.id, wish(receiver, address="", name="day"), by=admin)
    fire(table)
    deliver_due()

    row = Channel.objects.values().get()
    shown = repr((list_channels(admin), list_messages(admin)))
    audited = repr(list(AuditEvent.objects.values()))
    for secret in (HUSH, webhook.secret.removeprefix("whsec_")):
        assert secret not in shown + audited + repr(row)
    assert list_channels(admin)[0].address == f"http://127.0.0.1:{receiver.port}/…"
    assert receiver.received[0].path == f"/{HUSH}", "the address stayed"


def test_a_channel_sealed_with_another_key_says_what_to_do(
    table: Table, webhook: NewChannel, admin: User, settings: Settings
) -> None:
    settings.SECRET_KEY = "another one"
    fire(table)
    deliver_due()

    row = newest(admin)
    assert row.state == "dead"
    assert "SLUICE_SECRET_KEY" in row.deliveries[0].problem


def test_the_test_button_sends_through_a_paused_channel_too(
    receiver: Receiver, admin: User
) -> None:
    made = do_create_channel(wish(receiver, is_paused=True), by=admin)

    sent = do_test_channel(made.channel.id, by=admin)
    deliver_due()

    assert said(receiver.received[0])["about"] == "test"
    assert newest(admin).id == sent


@pytest.mark.parametrize(
    "changed",
    [
        {"name": " "},
        {"name": "x" * 65},
        {"kind": "pigeon"},
        {"address": ""},
        {"address": "http://169.254.169.254/"},
        {"address": "https://10.0.0.1:8443/"},
        {"body_format": "xml"},
        {"severity_min": "loud"},
        {"checks": ["none"]},
        {"namespaces": ["none"]},
        {"group_s": -1},
        {"group_s": 86_401},
        {"kind": "mail", "address": "a@example.org\nBcc: b@example.org"},
    ],
)
def test_a_channel_that_cannot_be_is_refused(
    receiver: Receiver, admin: User, changed: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        do_create_channel(wish(receiver, **changed), by=admin)

    assert not Channel.objects.exists()


def test_channels_are_an_admins(webhook: NewChannel, receiver: Receiver, operator: User) -> None:
    key = webhook.channel.id
    for refused in (
        lambda: do_create_channel(wish(receiver, name="x"), by=operator),
        lambda: do_change_channel(key, wish(receiver), by=operator),
        lambda: do_test_channel(key, by=operator),
        lambda: do_delete_channel(key, by=operator),
        lambda: list_channels(operator),
        lambda: list_messages(operator),
    ):
        with pytest.raises(PermissionDenied):
            refused()


def test_old_messages_go_and_a_deleted_channel_takes_its_own(
    table: Table, webhook: NewChannel, admin: User
) -> None:
    fire(table)
    deliver_due()
    delete_old_messages(now=timezone.now() + KEPT_FOR - MINUTE)
    assert Message.objects.count() == 1
    delete_old_messages(now=timezone.now() + KEPT_FOR + MINUTE)
    assert Message.objects.count() == 0
    do_test_channel(webhook.channel.id, by=admin)
    do_delete_channel(webhook.channel.id, by=admin)

    assert not Message.objects.exists()
    changes = AuditEvent.objects.filter(what__startswith="channel.").order_by("pk")
    assert [row.what for row in changes] == ["channel.create", "channel.test", "channel.delete"]
