"""Alerts, rules, silences and channels over REST."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.monitoring.models import Alert
from controlplane.tables.models import Table

HUSH = "hushhushhush"
CHANNEL = {"name": "x", "kind": "webhook", "address": f"https://receiver.example/{HUSH}"}


@pytest.fixture
def alert(db: None) -> Alert:
    table = Table.objects.create(slug="trips", name="Trips", location="/lake/trips")
    now = timezone.now()
    return Alert.objects.create(
        table=table, check_name="mirror", verdict="bad", unwell_at=now, fired_at=now
    )


@pytest.fixture
def as_admin(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


def put(client: Client, path: str, body: object) -> int:
    return client.put(f"/api/v1/{path}", body, content_type="application/json").status_code


def test_a_silenced_alert_moves_and_comes_back(
    client: Client, operator: User, alert: Alert
) -> None:
    client.force_login(operator)

    def listed(state: str) -> list[int]:
        return [row["id"] for row in client.get(f"/api/v1/alerts/?state={state}").json()]

    place = f"/api/v1/alerts/{alert.pk}/silence/"
    made = client.post(place, {"hours": 2, "reason": "known"}, content_type="application/json")
    while_silent = listed("firing"), listed("silenced")
    ended = client.delete(place)

    assert (made.status_code, made.json()["silence"]["reason"]) == (201, "known")
    assert while_silent == ([], [alert.pk])
    assert ended.status_code == 204
    assert listed("firing") == [alert.pk]


def test_rules_are_changed_and_wrong_ones_are_refused(as_admin: Client, alert: Alert) -> None:
    assert put(as_admin, "alert-rules/mirror/", {"fires": "bad", "severity": "info"}) == 200
    assert put(as_admin, "alert-rules/none/", {"fires": "bad"}) == 400
    assert put(as_admin, "alert-rules/mirror/", {"fires": "bad", "hold": 1}) == 400

    rows = {row["check"]: row for row in as_admin.get("/api/v1/alert-rules/").json()}
    assert (rows["mirror"]["fires"], rows["mirror"]["severity"]) == ("bad", "info")


def test_a_channel_shows_its_secret_once_and_its_address_never(as_admin: Client) -> None:
    made = as_admin.post("/api/v1/channels/", CHANNEL, content_type="application/json")
    key = made.json()["channel"]["id"]
    place = f"channels/{key}/"
    kept = {"name": "y", "kind": "webhook"}
    answers = [
        as_admin.get("/api/v1/channels/"),
        as_admin.get(f"/api/v1/{place}"),
        as_admin.put(f"/api/v1/{place}", kept, content_type="application/json"),
        as_admin.post(f"/api/v1/{place}test/"),
        as_admin.get("/api/v1/channels/messages/"),
    ]

    assert made.json()["secret"].startswith("whsec_")
    assert [answer.status_code for answer in answers] == [200, 200, 200, 202, 200]
    texts = [answer.content.decode() for answer in (made, *answers)]
    assert not any(HUSH in text for text in texts)
    assert not any(made.json()["secret"] in text for text in texts[1:])
    assert as_admin.get("/api/v1/channels/messages/").json()[0]["about"] == "test"
    assert as_admin.delete(f"/api/v1/{place}").status_code == 204
    assert as_admin.get(f"/api/v1/{place}").status_code == 404
