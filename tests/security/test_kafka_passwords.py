"""Threat T5: a password of the node goes only to the brokers to which the node's settings bind it,
also if a request names another broker together with it. The attacker's broker records what it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import (
    do_request_again,
    do_request_write,
    do_start_sink,
)
from controlplane.operations.ask import Requester
from controlplane.operations.kinds.sink import launch_again
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.replay_plans import launched_sink
from controlplane.operations.requesting import Given
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.operations.sink_resets import plan_sink_reset
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import sent_jobs
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.recording_broker import RecordingBroker, recording_broker
from workers.errors import InvalidInput, KafkaFailed
from workers.jobs import ReplayJob
from workers.sink.bounded_read import parse_bounded_read
from workers.sink.bounded_reader import resolve_offsets
from workers.sink.config import sink_config
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics
from workers.tasks import launch_sink, launch_write, replay_letters

PASSWORD = "opensesame-orders"
VARIABLE, OTHER = "SLUICE_KAFKA_ORDERS", "SLUICE_KAFKA_PAYMENTS"
ELSEWHERE = "kafka.example:9093"
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "sluice",
    "sasl.password.env": VARIABLE,
}
SOURCE = {
    "kind": "kafka",
    "topic": "trips",
    "start": "earliest",
    "protocol": "SASL_PLAINTEXT",
    "mechanism": "PLAIN",
    "username": "sluice",
    "password_env": VARIABLE,
}


@pytest.fixture
def broker() -> Iterator[RecordingBroker]:
    with recording_broker() as broker:
        yield broker


@pytest.fixture
def bind(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What the node's settings say, to its web process and to its workers."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    monkeypatch.setenv(OTHER, "of-payments")

    def bind(text: str) -> None:
        settings.SLUICE_KAFKA_BROKERS = tuple(text.split(",")) if text else ()
        monkeypatch.setenv("SLUICE_KAFKA_BROKERS", text)

    return bind


def bindings(broker: RecordingBroker) -> list[str]:
    """Settings by which the broker is sent no password of orders."""
    plaintext = f"SASL_PLAINTEXT://{broker.address}"
    return [
        "",
        f"{VARIABLE}={ELSEWHERE}",
        broker.address,
        f"{VARIABLE}={ELSEWHERE},{broker.address}",
        f"{VARIABLE}={ELSEWHERE},{OTHER}={plaintext}",
        f"{VARIABLE}={broker.address}",  # Over TLS alone.
    ]


def sink_options(broker: RecordingBroker) -> dict[str, str]:
    return {**OPTIONS, **SASL, "bootstrap.servers": broker.address}


def test_password_that_is_bound_to_a_broker_is_sent_there(
    broker: RecordingBroker, bind: Callable[[str], None]
) -> None:
    """So that the other tests could fail."""
    import os

    bind(f"{VARIABLE}=SASL_PLAINTEXT://{broker.address}")

    with pytest.raises(KafkaFailed):
        Topics(
            connection_settings(sink_config(sink_options(broker)), os.environ), timeout_s=1.0
        ).facts("t")

    assert PASSWORD.encode() in broker.heard


@pytest.mark.parametrize("number", range(6))
def test_no_request_has_a_password_sent_to_another_broker(
    number: int,
    lake: Lake,
    operator: User,
    client: Client,
    broker: RecordingBroker,
    bind: Callable[[str], None],
) -> None:
    options, source = sink_options(broker), {**SOURCE, "bootstrap": broker.address}
    wish = ScheduleWish(name="a", kind="write", parameters={"source": source}, every_s=3600)
    bind(f"{VARIABLE}=SASL_PLAINTEXT://{broker.address}")
    sunk = do_start_sink(lake.row, options, by=operator)
    written = do_request_write(table=lake.row, parameters={"source": source}, by=operator)
    do_make_schedule(lake.row, wish, owner=operator, by=Requester.person(operator))
    Schedule.objects.update(next_due_at=timezone.now())
    Operation.objects.update(state="succeeded")
    sunk.refresh_from_db()
    written.refresh_from_db()
    asks: list[Callable[[], object]] = [
        lambda: do_start_sink(lake.row, options, by=operator),
        lambda: launch_again(sunk, by=operator, reason=""),
        lambda: do_request_write(table=lake.row, parameters={"source": source}, by=operator),
        lambda: do_request_again(written, {}, Given(), operator),
        lambda: plan_sink_reset(lake.row, sunk.sink_id, to="earliest"),
        lambda: launched_sink(lake.row, sunk.sink_id),
    ]
    client.force_login(operator)
    api = f"/api/v1/tables/{lake.row.slug}"

    bind(bindings(broker)[number])

    for ask in asks:
        with pytest.raises(InvalidRequest, match="SLUICE_KAFKA_BROKERS") as refused:
            ask()
        assert PASSWORD not in str(refused.value)
    answers = [
        client.post(f"{api}/operations/", {"source": source}, "application/json"),
        client.post(f"{api}/sinks/", {"sink_options": options}, "application/json"),
    ]
    [run] = run_due_schedules()
    assert [answer.status_code for answer in answers] == [400, 400]
    assert run.outcome == "not_run"
    assert Operation.objects.count() == 2
    assert (broker.callers, bytes(broker.heard)) == (0, b"")


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("number", range(6))
def test_no_worker_sends_a_password_to_another_broker(
    number: int,
    lake: Lake,
    operator: User,
    broker: RecordingBroker,
    bind: Callable[[str], None],
    tmp_path: Path,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    """The job is from before the settings, or was written into the queue or the database."""
    import os

    options, source = sink_options(broker), {**SOURCE, "bootstrap": broker.address}
    bind(f"{VARIABLE}=SASL_PLAINTEXT://{broker.address}")
    sent_jobs()
    with django_capture_on_commit_callbacks(execute=True):
        operations = [
            do_start_sink(lake.row, options, by=operator),
            do_request_write(table=lake.row, parameters={"source": source}, by=operator),
        ]
    messages: list[dict[str, Any]] = [message for _, message in sent_jobs()]

    bind(bindings(broker)[number])

    for task, message in zip((launch_sink, launch_write), messages, strict=True):
        task.apply(args=[message]).get()
    for operation, message in zip(operations, messages, strict=True):
        operation.refresh_from_db()
        assert operation.state == "failed"
        assert "SLUICE_KAFKA_BROKERS" in operation.message
        assert not Path(message["run_dir"], "driver.json").exists()
    replay = ReplayJob(
        operation_id="replay",
        table=lake.row.location,
        sink_options=options,
        directory=f"{lake.row.location}-dead-letters",
        by="olaf",
        run_dir=str(tmp_path / "run"),
    )
    replay_letters.apply(args=[replay.to_message()]).get()
    with pytest.raises(InvalidInput, match="SLUICE_KAFKA_BROKERS"):
        resolve_offsets(parse_bounded_read(source), os.environ)

    assert (broker.callers, bytes(broker.heard)) == (0, b"")


def test_answer_of_an_address_does_not_tell_whether_a_path_is_a_file(
    lake: Lake, operator: User, client: Client, settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "ca"
    folder.mkdir()
    (tmp_path / "is.pem").touch()
    (folder / "ca.pem").touch()
    settings.SLUICE_KAFKA_CA_FOLDER = str(folder)
    client.force_login(operator)

    def answer(path: str) -> tuple[int, str]:
        body = {"sink_options": {**OPTIONS, "ssl.ca.location": path}}
        answer = client.post(f"/api/v1/tables/{lake.row.slug}/sinks/", body, "application/json")
        text = answer.content.decode()
        return answer.status_code, text.replace(path, "PATH") if answer.status_code == 400 else ""

    outside = {answer(str(tmp_path / name)) for name in ("is.pem", "is-not.pem")}

    assert len(outside) == 1
    assert "SLUICE_KAFKA_CA_FOLDER" in str(outside)
    assert answer(str(folder / "ca.pem"))[0] == 202
