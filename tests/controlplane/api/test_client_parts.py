"""The Python client's parts about people, sinks and streams, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from controlplane.accounts.tokens import create_token
from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.sinks import SINK, TOPIC, commit_offsets, stuck_state
from workers.public.sluice_client import Client, ProblemError
from workers.sink.state_file import put_state


@pytest.fixture
def node(live_server: LiveServer, admin: User) -> Iterator[Client]:
    with Client(live_server.url, str(create_token(admin, scope="administer")[1])) as client:
        yield client


def test_people_groups_and_grants_are_kept_from_python(node: Client, synced: Table) -> None:
    bea = node.create_user("bea", email="bea@example.org", reason="new here")
    link = node.password_link("bea")
    group = node.create_group("loaders")
    filled = node.add_member(group["id"], "bea")
    grant = node.grant("operator", group="loaders", table="trips", reason="loads them")

    assert (bea["name"], bea["is_active"]) == ("bea", True)
    assert link["path"].startswith("/")
    assert filled["members"] == ["bea"]
    assert (grant["role"], grant["table"]) == ("operator", "trips")
    assert [row["id"] for row in node.grants()] == [grant["id"]]
    assert "loaders" in {right["by_group"] for right in node.user("bea")["rights"]}
    assert [row["name"] for row in node.users(search="be")] == ["bea"]

    node.revoke(grant["id"])
    assert node.grants() == []
    assert node.remove_member(group["id"], "bea")["members"] == []
    node.delete_group(group["id"])
    assert node.groups() == []
    assert node.change_user("bea", is_active=False)["person"]["is_active"] is False
    with pytest.raises(ProblemError) as refused:
        node.grant("king", user="bea", table="trips")
    assert refused.value.code == "invalid_request"


def test_sinks_are_read_started_stopped_and_reset_from_python(node: Client, lake: Lake) -> None:
    now_ms = int(timezone.now().timestamp() * 1000)
    put_state(lake.table.storage, replace(stuck_state(), updated_ms=now_ms))
    commit_offsets(lake.row.location, "0=100,1=100,2=100,3=100")
    sync_table(lake.row)

    [sink] = node.sinks("trips")
    assert node.sink("trips", SINK)["phase"] == sink["phase"] == "stuck"
    assert [one["partition"] for one in node.sink_participants("trips", SINK, after=1)] == [2, 3]
    assert "timed_out" in {one["outcome"] for one in node.sink_transactions("trips", SINK)}
    assert node.sink_trace("trips", SINK)[0]["kind"] == "START_COMMIT"
    assert node.dead_letters("trips", SINK) == []
    with pytest.raises(ProblemError):  # There are none.
        node.replay_letters("trips", SINK, cause="too long", reason="mended")
    with pytest.raises(ProblemError):  # It runs.
        node.plan_sink_reset("trips", SINK, "earliest")

    options = {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": "another"}
    started = node.start_sink("trips", options, reason="more", key="k")
    again = node.start_sink("trips", options, reason="more", key="k")
    assert started["row"]["id"] == again["row"]["id"]
    assert node.stop_sink("trips", SINK, "graceful", reason="enough")["sink_id"] == SINK


def test_streams_are_read_from_python(node: Client, synced: Table) -> None:
    assert node.streams("trips")["streams"] == []
    assert node.stream_rounds("trips") == []
    assert node.stream_commits("trips") == []
    assert node.streams_board("trips")["streams"] == []
    with pytest.raises(ProblemError) as refused:
        node.explain_cell("trips", "1", column="nothing")
    assert refused.value.status in (400, 404, 409)


def test_connections_are_kept_from_python(node: Client) -> None:
    settings = {"host": "127.0.0.1", "port": 5, "database": "shop", "username": "sluice"}
    made = node.create_connection("shop", "postgresql", settings, secrets={"password": "opens"})
    moved = {**settings, "host": "db.example"}

    with pytest.raises(ProblemError) as refused:
        node.change_connection("shop", "postgresql", moved)
    changed = node.change_connection("shop", "postgresql", moved, secrets={"password": "again"})
    granted = node.grant_connection("shop", ["default"])

    assert (made["address"], made["secrets"]) == ("127.0.0.1:5/shop", ["password"])
    assert "must be entered again" in str(refused.value)
    assert changed["address"] == "db.example:5/shop"
    assert granted["namespaces"] == node.connection("shop")["namespaces"] == ["default"]
    assert [row["name"] for row in node.connections()] == ["shop"]
    node.delete_connection("shop")
    assert node.connections() == []


def test_a_table_is_changed_masked_and_scheduled_from_python(node: Client, synced: Table) -> None:
    owned = node.change_table("trips", owner="ops", new_slug="rides", reason="a better name")
    unowned = node.change_table("rides", owner="", reason="no owner")
    masked = node.mask_columns("rides", ["city"], reason="private")
    schedule = node.create_schedule("rides", "nightly", "service", service="clean", every_s=3600)
    service = node.schedule_service("rides", "clean", True, every_s=600)

    assert (owned["slug"], owned["owner"], unowned["owner"]) == ("rides", "ops", "")
    assert (unowned["namespace"], unowned["name"]) == (owned["namespace"], owned["name"])
    assert masked["columns"] == ["city"]
    assert node.mask_columns("rides", [])["columns"] == []
    assert (schedule["every_s"], schedule["cron"]) == (3600, "")
    changed = node.change_schedule(
        "rides", schedule["id"], "hourly", "service", service="clean", every_s=60
    )
    assert (changed["name"], changed["every_s"]) == ("hourly", 60)
    assert node.pause_schedule("rides", schedule["id"], True)["is_paused"] is True
    assert (service["enabled"], service["every_s"]) == (True, 600)
    assert node.schedule_service("rides", "clean", False)["enabled"] is False
    unregistered = node.unregister_table("rides", reason="enough", table_name="rides")
    assert unregistered["location"] == synced.location
    assert node.register_table(synced.location, "trips")["slug"] == "trips"
