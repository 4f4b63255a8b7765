"""Threat T32: the secret of a named connection goes to the address alone that an admin stored with
it, in the process of a job whose namespace may use it, and comes out nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core import serializers
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

import controlplane.celery
from controlplane.accounts.models import Grant
from controlplane.connections.actions import (
    ConnectionWish,
    do_create_connection,
    do_delete_connection,
    do_grant_connection,
)
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations import sink_resets
from controlplane.operations.actions import do_give_leave, do_request_write, do_start_sink
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.operations.sink_resets import plan_sink_reset
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import sent_jobs
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.recording_broker import RecordingBroker, recording_broker
from workers.clock import SystemClock
from workers.errors import KafkaFailed
from workers.jobs import SinkJob, driver_job
from workers.sink.bounded_read import parse_bounded_read
from workers.sink.config import sink_config
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics
from workers.spark.process import driver_environment
from workers.tasks import launch_write
from workers.tasks.authorization import request_job_authorization

CANARY = "c4n4ry-of-a-connection"
NAME = "orders"
USING = {**OPTIONS, "connection": NAME}
SOURCE = {"kind": "kafka", "topic": "trips", "start": "earliest", "connection": NAME}


def sasl(broker: RecordingBroker) -> ConnectionWish:
    return ConnectionWish(
        name=NAME,
        kind="kafka",
        settings={
            "bootstrap_servers": broker.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "username": "sluice",
        },
        secrets={"password": CANARY},
    )


@pytest.fixture
def broker() -> Iterator[RecordingBroker]:
    with recording_broker() as broker:
        yield broker


@pytest.fixture
def orders_cluster(broker: RecordingBroker, admin: User) -> RecordingBroker:
    """The broker of the connection `orders`, which the namespace `default` may use."""
    do_create_connection(sasl(broker), by=admin)
    do_grant_connection(NAME, ["default"], by=admin)
    return broker


@pytest.fixture
def take_grant(admin: User) -> Callable[[], object]:
    return lambda: do_grant_connection(NAME, ["elsewhere"], by=admin)


def write(lake: Lake, by: User) -> Operation:
    return do_request_write(table=lake.row, parameters={"source": SOURCE}, by=by)


@pytest.mark.usefixtures("working")
def test_worker_alone_receives_the_password_and_sends_it_to_the_stored_broker(
    lake: Lake,
    operator: User,
    orders_cluster: RecordingBroker,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        write(lake, operator)
        do_start_sink(lake.row, USING, by=operator)
    messages = [message for _, message in sent_jobs()]
    assert CANARY not in repr(messages)

    for message in messages:
        job = driver_job(message)
        variables = request_job_authorization(job, SystemClock())
        assert variables is not None
        environment = driver_environment({**os.environ, **variables}, job.operation_id)
        heard = len(orders_cluster.heard)
        config = (
            sink_config(USING) if isinstance(job, SinkJob) else parse_bounded_read(SOURCE).config
        )
        with pytest.raises(KafkaFailed) as failed:
            Topics(connection_settings(config, environment), timeout_s=1.0).facts("trips")
        assert CANARY not in str(failed.value)
        assert CANARY.encode() in orders_cluster.heard[heard:]


@pytest.mark.usefixtures("working")
def test_job_whose_connection_was_taken_from_its_namespace_is_refused_as_it_begins(
    lake: Lake,
    operator: User,
    orders_cluster: RecordingBroker,
    take_grant: Callable[[], object],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        operation = write(lake, operator)
    [(_, message)] = sent_jobs()
    take_grant()

    launch_write.apply(args=[message]).get()

    operation.refresh_from_db()
    assert operation.state == "refused"
    assert "is granted to the namespace" in operation.message
    assert orders_cluster.callers == 0


def test_turn_of_a_schedule_asks_again_whether_its_namespace_may_use_the_connection(
    lake: Lake, operator: User, orders_cluster: RecordingBroker, take_grant: Callable[[], object]
) -> None:
    wish = ScheduleWish(name="a", kind="write", parameters={"source": SOURCE}, every_s=3600)
    do_make_schedule(lake.row, wish, owner=operator, by=Requester.person(operator))
    take_grant()
    Schedule.objects.update(next_due_at=timezone.now())

    [run] = run_due_schedules()

    assert run.outcome == "not_run"
    assert "is granted to the namespace" in run.words
    assert Operation.objects.count() == 0


@pytest.mark.parametrize(
    "more",
    [
        {"bootstrap.servers": "kafka.example:9093"},
        {"security.protocol": "PLAINTEXT"},
        {"sasl.username": "other"},
        {"sasl.password.env": "SLUICE_KAFKA_ORDERS"},
        {"ssl.ca.location": "/etc/ca.pem"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_request_overrides_neither_address_nor_secret(
    lake: Lake, operator: User, orders_cluster: RecordingBroker, more: dict[str, str]
) -> None:
    in_source = {
        "bootstrap.servers": "bootstrap",
        "security.protocol": "protocol",
        "sasl.username": "username",
        "sasl.password.env": "password_env",
        "ssl.ca.location": "ca",
    }
    source = {**SOURCE, **{in_source[key]: text for key, text in more.items()}}

    with pytest.raises(InvalidRequest, match="remove these options"):
        do_start_sink(lake.row, {**USING, **more}, by=operator)
    with pytest.raises(InvalidRequest, match="remove these options"):
        do_request_write(table=lake.row, parameters={"source": source}, by=operator)

    assert orders_cluster.callers == 0


def test_operator_of_another_namespace_neither_sees_nor_uses_the_connection(
    lake: Lake, orders_cluster: RecordingBroker, client: Client
) -> None:
    table = Table.objects.create(slug="far", name="far", namespace="far", location="/lake/far")
    gus = User.objects.create_user("gus")
    Grant.objects.create(user=gus, namespace="far", role="operator", granted_by="a test")
    client.force_login(gus)

    listed = client.get("/api/v1/connections/")
    answers = {
        client.get(f"/api/v1/connections/{name}/").content for name in (NAME, "there-is-none")
    }
    refused = {
        client.post(
            f"/api/v1/tables/{table.slug}/operations/",
            {"source": {**SOURCE, "connection": name}},
            "application/json",
        ).content.replace(name.encode(), b"NAME")
        for name in (NAME, "there-is-none")
    }

    assert (listed.status_code, listed.json()) == (200, [])
    assert len(answers) == len(refused) == 1
    assert b"is granted to the namespace" in refused.pop()


def test_operator_sees_name_kind_and_address_of_a_granted_connection_alone(
    lake: Lake, orders_cluster: RecordingBroker, operator: User, admin: User, client: Client
) -> None:
    gus = User.objects.create_user("gus")
    Grant.objects.create(user=gus, table=lake.row, role="operator", granted_by="a test")
    do_grant_connection(NAME, ["default", "secret-project"], by=admin)
    client.force_login(gus)

    [row] = client.get("/api/v1/connections/").json()

    assert {key: value for key, value in row.items() if value} == {
        "name": NAME,
        "kind": "kafka",
        "address": orders_cluster.address,
        "namespaces": ["default"],
    }


def test_connection_that_something_uses_is_not_deleted(
    lake: Lake, operator: User, admin: User, orders_cluster: RecordingBroker
) -> None:
    wish = ScheduleWish(name="nightly", kind="write", parameters={"source": SOURCE}, every_s=3600)
    do_make_schedule(lake.row, wish, owner=operator, by=Requester.person(operator))
    sink = do_start_sink(lake.row, USING, by=operator)

    with pytest.raises(NotAllowedNow) as refused:
        do_delete_connection(NAME, by=admin)

    assert "the schedule nightly of trips" in str(refused.value)
    assert f"the sink {sink.sink_id} into trips" in str(refused.value)
    Schedule.objects.update(is_paused=True)
    Operation.objects.update(state="succeeded")
    do_delete_connection(NAME, by=admin)


def test_reset_of_a_sink_reaches_the_broker_of_its_connection(
    lake: Lake,
    operator: User,
    orders_cluster: RecordingBroker,
    take_grant: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sink_resets, "BROKER_WAIT_S", 1.0)
    sink = do_start_sink(lake.row, USING, by=operator)
    Operation.objects.update(state="succeeded")

    with pytest.raises(Exception, match="topic not described") as failed:
        plan_sink_reset(lake.row, sink.sink_id, to="earliest")
    take_grant()
    with pytest.raises(InvalidRequest, match="is granted to the namespace"):
        plan_sink_reset(lake.row, sink.sink_id, to="earliest")

    assert CANARY.encode() in orders_cluster.heard
    assert CANARY not in str(failed.value)


def test_secret_of_a_connection_comes_out_nowhere(
    lake: Lake,
    admin: User,
    broker: RecordingBroker,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(
        controlplane.celery.app, "send_task", lambda *args, **options: sent.append((args, options))
    )
    client.force_login(admin)
    wish, address = sasl(broker), f"/api/v1/connections/{NAME}/"
    body = {"kind": "kafka", "settings": wish.settings, "secrets": wish.secrets}
    wrong = {**body, "settings": {**wish.settings, "sasl_mechanism": CANARY}}
    misplaced = {**body, "settings": {**wish.settings, "password": CANARY}}
    unprotected = {**body, "settings": {"bootstrap_servers": broker.address}}

    with django_capture_on_commit_callbacks(execute=True):
        answers = [
            client.post("/api/v1/connections/", {"name": NAME, **body}, "application/json"),
            client.put(f"{address}grants/", {"namespaces": ["default"]}, "application/json"),
            client.post(f"{address}test/"),
            client.post(
                f"/api/v1/tables/{lake.row.slug}/operations/",
                {"source": SOURCE},
                "application/json",
            ),
            *(
                client.put(address, json.dumps(each), "application/json")
                for each in (body, wrong, misplaced, unprotected)
            ),
            *(client.get(page) for page in (address, "/api/v1/connections/", "/api/v1/audit/")),
        ]
    answers.append(client.delete(address))

    assert [answer.status_code for answer in answers] == [
        *(201, 200, 200, 202), *(200, 400, 400, 400), *(200, 200, 200), 409
    ]  # fmt: skip
    assert CANARY.encode() in broker.heard  # The test sent it there.
    assert answers[2].json()["is_reached"] is False
    assert "AUTHENTICATION" in answers[2].json()["problem"]
    assert [answer.content for answer in answers if CANARY in answer.content.decode()] == []
    assert [
        model._meta.label
        for model in apps.get_models()
        if CANARY in serializers.serialize("json", model._default_manager.all())
    ] == []
    assert sent
    assert CANARY not in repr(sent)
    assert CANARY not in caplog.text


def test_leave_answers_the_settings_to_the_worker_of_the_operation_alone(
    lake: Lake, operator: User, admin: User, orders_cluster: RecordingBroker, client: Client
) -> None:
    operation = write(lake, operator)
    client.force_login(admin)

    answer = client.post(
        "/api/v1/reports/operations/leave/",
        {"operation_id": str(operation.pk)},
        "application/json",
    )

    assert answer.status_code == 401
    assert CANARY not in answer.content.decode()
    assert do_give_leave(operation.pk) is True
