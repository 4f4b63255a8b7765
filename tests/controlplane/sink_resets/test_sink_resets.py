"""An offset reset of a sink as an action of the control plane: by the API and the page, with a plan
first, for admins, once.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import get_shell_user
from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid, StorageUnavailable
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_reset_sink, do_start_sink, plan_sink_reset
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.kafka import client, fresh_topic
from tests.support.sinks import SINK, commit_offsets
from workers.lakehouse import open_table
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.sink.sink_commits import SinkCommits

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def topic(kafka: Broker, topics: Topics) -> str:
    """One partition, ten records."""
    from confluent_kafka import Producer

    name = fresh_topic(topics, 1)
    producer = Producer(dict(client(kafka)))
    for number in range(10):
        producer.produce(name, f"{number}".encode(), partition=0)
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def sink(lake: Lake, kafka: Broker, topic: str, topics: Topics, admin: User) -> Table:
    """Of a sink that was stopped when the table had the first four records."""
    options = {
        "hoodie.kafka.topic": topic,
        "hoodie.sink.id": SINK,
        "bootstrap.servers": kafka.bootstrap,
        "hoodie.sink.mode": "upsert",
    }
    do_start_sink(lake.row, options, by=admin)
    Operation.objects.update(state="succeeded")
    facts = topics.facts(topic)
    topic_facts = {"hoodie.sink.topic": topic, "hoodie.sink.topic.id": facts.topic_id}
    commit_offsets(lake.row.location, "0=4", extra=topic_facts)
    sync_table(lake.row)
    return lake.row


def committed_offsets(table: Table) -> dict[int, int]:
    opened = open_table(table.location).table
    return dict(SinkCommits(opened, SINK).load_newest(opened.timeline()).offsets)


def shell(*words: str) -> str:
    out = StringIO()
    call_command("sink", *words, stdout=out)
    return out.getvalue()


def confirmed(table: Table, by: User, **changed: Any) -> Any:
    plan = plan_sink_reset(table, SINK, to="earliest")
    confirmation = {
        "to": plan.to,
        "plan_hash": plan.plan_hash,
        "typed_name": table.slug,
        "reason": "read it again",
    }
    return do_reset_sink(table, SINK, by=by.get_username(), **(confirmation | changed))


def test_the_plan_says_what_is_read_again_and_what_is_passed_over(sink: Table) -> None:
    back = plan_sink_reset(sink, SINK, to="earliest")
    ahead = plan_sink_reset(sink, SINK, to="latest")
    within = plan_sink_reset(sink, SINK, to='{"0": 6}')

    assert (back.read_again, back.passed_over, back.to) == (4, 0, '{"0": 0}')
    assert (ahead.read_again, ahead.passed_over) == (0, 6)
    assert [(one.stands, one.next, one.end) for one in within.partitions] == [(4, 6, 10)]
    assert len({back.plan_hash, ahead.plan_hash, within.plan_hash}) == 3
    assert committed_offsets(sink) == {0: 4}


def test_a_reset_is_one_commit_and_in_the_audit_however_often_it_is_asked_for(
    sink: Table, admin: User
) -> None:
    plan = plan_sink_reset(sink, SINK, to="earliest")
    confirmation: dict[str, Any] = {
        "to": plan.to,
        "plan_hash": plan.plan_hash,
        "typed_name": "trips",
        "reason": "again",
    }

    done = do_reset_sink(sink, SINK, by="ada", idempotency_key="k", **confirmation)

    assert committed_offsets(sink) == {0: 0}
    assert do_reset_sink(sink, SINK, by="ada", idempotency_key="k", **confirmation) == done
    with pytest.raises(PlanVoid):
        do_reset_sink(sink, SINK, by="ada", **confirmation)
    events = AuditEvent.objects.filter(what="sink.reset").order_by("id")
    assert [one.result for one in events] == ["requested", "succeeded"]
    last = events[1]
    assert (last.who, last.reason, last.plan_hash) == ("ada", "again", plan.plan_hash)
    assert (last.details["instant"], last.details["offsets"]) == (done.instant, {"0": 0})
    with pytest.raises(InvalidRequest, match="another request"):
        confirmed(sink, admin, idempotency_key="k", plan_hash="0" * 64)


def test_what_is_no_request_or_not_confirmed_changes_nothing(sink: Table, admin: User) -> None:
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (InvalidRequest, {"typed_name": "other"}),
        (InvalidRequest, {"reason": " "}),
        (InvalidRequest, {"to": "yesterday"}),
        (InvalidRequest, {"to": '{"0": 400}'}),
        (PlanVoid, {"plan_hash": "0" * 64}),
        (PlanVoid, {"to": '{"0": 2}'}),
    ]
    for error, how in refused:
        with pytest.raises(error):
            confirmed(sink, admin, **how)

    assert committed_offsets(sink) == {0: 4}
    assert not AuditEvent.objects.filter(what="sink.reset").exists()


def test_a_sink_that_has_gone_on_voids_the_plan(sink: Table, topics: Topics, admin: User) -> None:
    plan = plan_sink_reset(sink, SINK, to="earliest")
    topic = plan.topic
    topic_facts = {"hoodie.sink.topic": topic, "hoodie.sink.topic.id": topics.facts(topic).topic_id}
    commit_offsets(sink.location, "0=7", extra=topic_facts)

    with pytest.raises(PlanVoid):
        confirmed(sink, admin, plan_hash=plan.plan_hash)

    assert committed_offsets(sink) == {0: 7}


def test_a_sink_that_runs_or_is_not_known_here_is_not_reset(sink: Table, admin: User) -> None:
    Operation.objects.update(state="running")
    with pytest.raises(NotAllowedNow, match="stop it first"):
        plan_sink_reset(sink, SINK, to="earliest")
    with pytest.raises(NotAllowedNow, match=r"manage\.py sink reset"):
        plan_sink_reset(sink, "of-a-shell", to="earliest")


def test_a_broker_that_is_away_is_said(lake: Lake, sink: Table, admin: User) -> None:
    options = {
        "hoodie.kafka.topic": "t",
        "hoodie.sink.id": SINK,
        "bootstrap.servers": "127.0.0.1:1",
    }
    do_start_sink(lake.row, options, by=admin)
    Operation.objects.update(state="succeeded")

    with pytest.raises(StorageUnavailable):
        plan_sink_reset(sink, SINK, to="earliest")


def test_the_api_plans_and_resets_for_admins_alone(
    sink: Table, admin: User, operator: User, client: Client
) -> None:
    address = f"/api/v1/tables/{sink.slug}/sinks/{SINK}/reset/"
    client.force_login(operator)
    refused = client.post(f"{address}plan/", {"to": "earliest"}, "application/json")
    client.force_login(admin)
    plan = client.post(f"{address}plan/", {"to": "earliest"}, "application/json").json()
    body = {
        "to": plan["to"],
        "plan_hash": plan["plan_hash"],
        "table_name": sink.slug,
        "reason": "x",
    }
    headers = {"Idempotency-Key": "one"}

    first = client.post(address, body, "application/json", headers=headers)
    again = client.post(address, body, "application/json", headers=headers)

    assert refused.status_code == 403
    assert (plan["read_again"], plan["partitions"][0]["stands"]) == (4, 4)
    assert (first.status_code, again.json()) == (201, first.json())
    assert committed_offsets(sink) == {0: 0}


def test_the_page_shows_the_plan_before_it_sets_anything(
    sink: Table, admin: User, operator: User, client: Client
) -> None:
    page = f"/t/{sink.slug}/sinks/{SINK}/reset"
    client.force_login(operator)
    refused, hidden = client.get(page), client.get(f"/t/{sink.slug}/sinks?sink={SINK}")
    client.force_login(admin)
    shown = client.get(f"/t/{sink.slug}/sinks?sink={SINK}").content.decode()
    ahead = client.get(page, {"to": "offsets", "offsets": '{"0": 6}'}).content.decode()
    plan = plan_sink_reset(sink, SINK, to='{"0": 6}')
    form = {"to": plan.to, "plan_hash": plan.plan_hash, "reason": "x", "idempotency_key": "k"}

    wrong = client.post(page, form | {"typed_name": "other"})
    done = client.post(page, form | {"typed_name": sink.slug}, follow=True)

    assert refused.status_code == 403
    assert page not in hidden.content.decode()
    assert page in shown
    assert "2 records skipped" in ahead
    assert (wrong.status_code, "typed name" in wrong.content.decode()) == (400, True)
    assert "reset in commit" in done.content.decode()
    assert committed_offsets(sink) == {0: 6}


def test_the_shell_resets_by_the_same_checks_and_with_the_same_audit(
    sink: Table, topic: str, kafka: Broker
) -> None:
    of_sink = ("--topic", topic, "--id", SINK, "--bootstrap", kafka.bootstrap, "--mode", "upsert")
    reset = ("reset", "trips", *of_sink, "--to", "earliest")
    shown = shell(*reset)
    [plan_hash] = re.findall(r"--plan-hash (\S+)", shown)
    with pytest.raises(CommandError, match="changed since the plan"):
        shell(*reset, "--plan-hash", "0" * 64)
    Operation.objects.update(state="running")
    with pytest.raises(CommandError, match="stop it first"):
        shell(*reset, "--yes")
    Operation.objects.update(state="succeeded")
    before = committed_offsets(sink)

    done = shell(*reset, "--plan-hash", plan_hash, "--reason", "read it again")

    assert "4 records are read again" in shown
    assert "continues at these offsets: commit" in done
    assert (before, committed_offsets(sink)) == ({0: 4}, {0: 0})
    events = AuditEvent.objects.filter(what="sink.reset").order_by("id")
    assert [one.result for one in events] == ["requested", "succeeded"]
    assert {(one.who, one.reason, one.plan_hash) for one in events} == {
        (get_shell_user(), "read it again", plan_hash)
    }


def test_a_table_that_is_not_registered_is_reset_by_its_location(
    sink: Table, topic: str, kafka: Broker
) -> None:
    of_sink = ("--topic", topic, "--id", SINK, "--bootstrap", kafka.bootstrap, "--mode", "upsert")
    Table.objects.all().delete()

    done = shell("reset", sink.location, *of_sink, "--to", "latest", "--yes")

    assert "6 records are skipped" in done
    assert committed_offsets(sink) == {0: 10}
