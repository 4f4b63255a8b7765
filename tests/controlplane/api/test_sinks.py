"""Sinks over REST: from start to stop, and what is told of one that is stuck."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.left_out import leave_out, sent_again
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import (
    SINK,
    TOPIC,
    commit_offsets,
    stopped_state,
    stuck_state,
)
from workers.clock import format_instant
from workers.sink.state_file import ParticipantSnapshot, SinkState, put_state

SINKS = "/api/v1/tables/trips/sinks/"


@pytest.fixture
def stuck(lake: Lake) -> Table:
    put_state(lake.table.storage, _fresh())
    commit_offsets(lake.row.location, "0=100,1=100,2=100,3=100")
    sync_table(lake.row)
    return lake.row


def _fresh() -> SinkState:
    now_ms = int(timezone.now().timestamp() * 1000)
    return replace(stuck_state(), updated_ms=now_ms)


def post(client: Client, address: str, body: dict[str, Any], **headers: str) -> Any:
    return client.post(address, json.dumps(body), "application/json", headers=headers)


def test_stuck_sink_names_the_participant_that_is_missing(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)

    (sink,) = client.get(SINKS).json()

    assert (sink["sink_id"], sink["phase"], sink["is_running"]) == (SINK, "stuck", True)
    assert [one["partition"] for one in sink["seen"]["waits_for"]] == [2]
    assert sink["run"] is None


@pytest.mark.parametrize(("age_s", "phase"), [(2, "running"), (40, "stuck")])
def test_participant_that_never_came_has_a_while_from_the_transactions_begin(
    lake: Lake, client: Client, viewer: User, age_s: int, phase: str
) -> None:
    fresh = _fresh()
    begun = format_instant(fresh.updated_ms - age_s * 1000)
    waiting = replace(
        fresh, state="STARTED_COMMIT", instant=begun, participants=(ParticipantSnapshot(0),)
    )
    put_state(lake.table.storage, waiting)
    sync_table(lake.row)
    client.force_login(viewer)

    (sink,) = client.get(SINKS).json()

    assert sink["phase"] == phase
    assert [one["partition"] for one in sink["seen"]["waits_for"]] == [0]


def test_participants_transactions_and_trace_are_told(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)
    address = f"{SINKS}{SINK}/"

    participants = client.get(f"{address}participants/?after=0&limit=2").json()
    transactions = client.get(f"{address}transactions/").json()
    trace = client.get(f"{address}trace/").json()

    assert [each["partition"] for each in participants] == [1, 2]
    assert participants[0]["agreement"] == "writing"
    assert (participants[0]["broker_offset"], participants[0]["lag"]) == (150, 50)
    assert [each["outcome"] for each in transactions] == ["committed", "timed_out", "committed"]
    assert transactions[1]["took_ms"] == 300_000
    assert trace[0]["kind"] == "START_COMMIT"


def test_sink_goes_from_start_to_stop_and_relaunch(
    client: Client, operator: User, lake: Lake
) -> None:
    client.force_login(operator)
    body = {"sink_options": {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": SINK}}
    key = {"Idempotency-Key": "k"}

    first, again = post(client, SINKS, body, **key), post(client, SINKS, body, **key)
    busy = post(client, SINKS, body)
    starting = client.get(f"{SINKS}{SINK}/").json()
    stopped = post(client, f"{SINKS}{SINK}/stop/", {"kind": "hard", "reason": "wrong topic"})
    still = post(client, f"{SINKS}{SINK}/relaunch/", {})
    Operation.objects.update(state="cancelled")
    relaunched = post(client, f"{SINKS}{SINK}/relaunch/", {"reason": "back"})

    assert first.status_code == again.status_code == relaunched.status_code == 202
    assert first.json()["row"]["id"] == again.json()["row"]["id"]
    assert first.json()["row"]["kind"] == "sink"
    assert (busy.status_code, still.status_code) == (409, 409)
    assert starting["phase"] == "starting"
    assert starting["run"]["options"] == body["sink_options"]
    assert (stopped.status_code, stopped.json()["phase"]) == (202, "cancelling")
    assert relaunched.json()["row"]["id"] != first.json()["row"]["id"]


@pytest.mark.parametrize(
    "body",
    [
        {"sink_options": {"hoodie.kafka.topic": TOPIC, "hoodie.kafka.topik": "x"}},
        {"sink_options": {}},
        {"sink_options": {"hoodie.kafka.topic": TOPIC, "sasl.password": "secret"}},
        {"sink_options": {"hoodie.kafka.topic": TOPIC}, "relaunches_max": 1000},
        {"sink_options": {"hoodie.kafka.topic": TOPIC}, "state": "running"},
        {"sink_options": {"hoodie.kafka.topic": TOPIC}, "application": "mine"},
    ],
    ids=str,
)
def test_wrong_start_is_refused_in_words(
    client: Client, operator: User, lake: Lake, body: dict[str, Any]
) -> None:
    client.force_login(operator)

    answer = post(client, SINKS, body)

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"
    assert not Operation.objects.exists()


def test_unknown_and_stopped_sinks_are_told_apart(
    client: Client, operator: User, lake: Lake
) -> None:
    put_state(lake.table.storage, stopped_state())
    sync_table(lake.row)
    client.force_login(operator)

    assert client.get(f"{SINKS}nobody/").status_code == 404
    assert client.get(f"{SINKS}nobody/participants/").json() == []
    assert client.get(f"{SINKS}{SINK}/").json()["phase"] == "stopped"
    assert post(client, f"{SINKS}{SINK}/stop/", {}).status_code == 409


def test_damaged_state_is_told_and_not_a_server_error(
    client: Client, viewer: User, lake: Lake
) -> None:
    lake.table.storage.put(f".hoodie/.sluice/sink/{SINK}/state.json", b"{")
    sync_table(lake.row)
    client.force_login(viewer)

    sink = client.get(f"{SINKS}{SINK}/").json()

    assert sink["phase"] == "unreadable"
    assert "sink's state is not readable" in sink["seen"]["problem"]


@pytest.fixture
def letters(lake: Lake) -> str:
    """A commit that left two records out, and their file."""
    return leave_out(lake.row)


def test_dead_letters_are_read_with_their_causes(
    client: Client, viewer: User, letters: str
) -> None:
    client.force_login(viewer)

    (commit,) = client.get(f"{SINKS}{SINK}/dead-letters/").json()
    page = client.get(f"{SINKS}{SINK}/dead-letters/{letters}/").json()

    assert (commit["instant"], commit["records"]) == (letters, 2)
    assert [(one["place"], one["cause"], one["is_cut"]) for one in page["rows"]] == [
        ("0:7", "not JSON", True),
        ("0:9", "not UTF-8", False),
    ]
    assert [one["sent_at"] for one in page["rows"]] == [None, None]
    assert page["passed_over"] == ["gone.x"]
    assert client.get(f"{SINKS}other/dead-letters/{letters}/").status_code == 404


def test_an_admin_sends_letters_again_and_hears_which_are_sent_already(
    client: Client, admin: User, operator: User, lake: Lake, letters: str
) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)
    address, body = f"{SINKS}{SINK}/dead-letters/replay/", {"instant": letters, "reason": "mended"}
    client.force_login(operator)
    assert post(client, address, body).status_code == 403
    client.force_login(admin)

    assert post(client, address, {"instant": letters}).status_code == 400
    assert post(client, address, {"reason": "all of it"}).status_code == 400
    assert post(client, address, {**body, "letters": ["7"]}).status_code == 400
    first = post(client, address, body, **{"Idempotency-Key": "one"})
    again = post(client, address, body, **{"Idempotency-Key": "one"})
    other = post(client, address, body, **{"Idempotency-Key": "two"})

    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
    assert first.json()["row"]["id"] == again.json()["row"]["id"]
    assert first.json()["row"]["kind"] == "replay"
    Operation.objects.filter(kind="replay").update(state="succeeded")
    sent_again(lake.row, 7, 9)
    late = post(client, address, body)
    assert late.status_code == 409
    assert "already replayed" in late.content.decode()
    rows = client.get(f"{SINKS}{SINK}/dead-letters/{letters}/").json()["rows"]
    assert [one["sent_by"] for one in rows] == ["bob", "bob"]


def test_names_of_dead_letter_files_lead_nowhere_else(
    client: Client, viewer: User, lake: Lake
) -> None:
    extra = {"hoodie.sink.dlq.count": "1", "sluice.dead_letter.files": "../trips/secret"}
    instant = commit_offsets(lake.row.location, "0=10", extra=extra)
    put_state(lake.table.storage, stuck_state())
    sync_table(lake.row)
    client.force_login(viewer)

    assert client.get(f"{SINKS}{SINK}/dead-letters/{instant}/").status_code == 400


def test_number_of_queries_does_not_grow_with_the_sinks(
    client: Client,
    viewer: User,
    lake: Lake,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(8):
        put_state(lake.table.storage, stuck_state(sink_id=f"s{number}"))
    sync_table(lake.row)
    client.force_login(viewer)

    with django_assert_max_num_queries(9):
        assert len(client.get(SINKS).json()) == 8
