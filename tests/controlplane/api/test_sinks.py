"""Sinks over REST: from start to stop, and what is told of one that is stuck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.sinks import (
    NOW_MS,
    SINK,
    TOPIC,
    commit_offsets,
    stopped_state,
    stuck_state,
)
from workers.sink.batch import BadRecord
from workers.sink.letters import letters_table
from workers.sink.state_file import put_state
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

SINKS = "/api/v1/tables/trips/sinks/"


@pytest.fixture
def stuck(lake: Lake) -> Table:
    put_state(lake.table.storage, _fresh())
    commit_offsets(lake.row.location, "0=100,1=100,2=100,3=100")
    sync_table(lake.row)
    return lake.row


def _fresh() -> Any:
    from dataclasses import replace

    now_ms = int(timezone.now().timestamp() * 1000)
    return replace(stuck_state(), updated_ms=now_ms)


def post(client: Client, address: str, body: dict[str, Any], **headers: str) -> Any:
    return client.post(address, json.dumps(body), "application/json", headers=headers)


def test_stuck_sink_names_the_participant_that_is_missing(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)

    (found,) = client.get(SINKS).json()

    assert (found["sink_id"], found["phase"], found["is_running"]) == (SINK, "stuck", True)
    assert [one["partition"] for one in found["seen"]["waits_for"]] == [2]
    assert found["run"] is None


def test_participants_transactions_and_trace_are_told(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)
    one = f"{SINKS}{SINK}/"

    participants = client.get(f"{one}participants/?after=0&limit=2").json()
    transactions = client.get(f"{one}transactions/").json()
    trace = client.get(f"{one}trace/").json()

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

    asked, again = post(client, SINKS, body, **key), post(client, SINKS, body, **key)
    busy = post(client, SINKS, body)
    starting = client.get(f"{SINKS}{SINK}/").json()
    stopped = post(client, f"{SINKS}{SINK}/stop/", {"kind": "hard", "reason": "wrong topic"})
    still = post(client, f"{SINKS}{SINK}/relaunch/", {})
    Operation.objects.update(state="cancelled")
    relaunched = post(client, f"{SINKS}{SINK}/relaunch/", {"reason": "back"})

    assert asked.status_code == again.status_code == relaunched.status_code == 202
    assert asked.json()["row"]["id"] == again.json()["row"]["id"]
    assert asked.json()["row"]["kind"] == "sink"
    assert (busy.status_code, still.status_code) == (409, 409)
    assert starting["phase"] == "starting"
    assert starting["run"]["options"] == body["sink_options"]
    assert (stopped.status_code, stopped.json()["phase"]) == (202, "cancelling")
    assert relaunched.json()["row"]["id"] != asked.json()["row"]["id"]


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

    found = client.get(f"{SINKS}{SINK}/").json()

    assert found["phase"] == "unreadable"
    assert "sink's state is not readable" in found["seen"]["problem"]


@pytest.fixture
def letters(lake: Lake) -> str:
    """A commit that left two records out, and their file."""
    directory = Path(f"{lake.row.location}-dead-letters")
    directory.mkdir()
    bad = [
        BadRecord(7, b"k", b'{"id": ' + b"x" * 9_000, "not JSON", NOW_MS),
        BadRecord(9, None, b"\xff\x00", "not UTF-8"),
    ]
    written = DeadLetters(str(directory), "20261121120000000").write(
        letters_table(TOPIC, 0, bad), TaskIds()
    )
    extra = {"hoodie.sink.dlq.count": "2", "sluice.dead_letter.files": f"{written.name},gone.x"}
    instant = commit_offsets(lake.row.location, "0=10", extra=extra)
    put_state(lake.table.storage, stuck_state())
    sync_table(lake.row)
    return instant


def test_dead_letters_are_read_with_their_causes(
    client: Client, viewer: User, letters: str
) -> None:
    client.force_login(viewer)

    (commit,) = client.get(f"{SINKS}{SINK}/dead-letters/").json()
    found = client.get(f"{SINKS}{SINK}/dead-letters/{letters}/").json()

    assert (commit["instant"], commit["records"]) == (letters, 2)
    assert [(one["offset"], one["cause"], one["is_cut"]) for one in found["rows"]] == [
        (7, "not JSON", True),
        (9, "not UTF-8", False),
    ]
    assert found["passed_over"] == ["gone.x"]
    assert client.get(f"{SINKS}other/dead-letters/{letters}/").status_code == 404


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

    with django_assert_max_num_queries(8):
        assert len(client.get(SINKS).json()) == 8
