"""Job messages survive JSON unchanged, and nothing malformed becomes a job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.errors import InvalidInput
from workers.jobs import CancelJob, ReplayJob, RollbackJob, SinkJob, WriteJob, driver_job

SESSION = "0b36c24a-7e1e-4a4b-9a9c-0d7f6f1c2e3d"

WRITE: dict[str, Any] = {
    "operation_id": "42",
    "table": "/srv/tables/ad_requests",
    "source": {"kind": "demo_stream", "stream": "click", "rounds": 40, "pace_s": 5.0},
    "stream": "click",
    "options": {"sluice.writer.name": "click"},
    "spark_conf": {"spark.sql.shuffle.partitions": "8"},
    "session_id": SESSION,
    "run_dir": "/srv/run/42",
    "report_url": "http://127.0.0.1:8000/api/v1/reports/operations/",
}
SINK: dict[str, Any] = {
    "operation_id": "44",
    "table": "/srv/tables/orders",
    "sink_options": {"hoodie.kafka.topic": "orders"},
    "application": "connect",
    "session_id": SESSION,
    "run_dir": "/srv/run/44",
}
ROLLBACK: dict[str, Any] = {
    "operation_id": "43",
    "table": "/srv/tables/ad_requests",
    "instant": "20260102030405678",
    "plan_hash": "ab12",
    "reason": "wrong input",
    "by": "admin",
}
CANCEL: dict[str, Any] = {
    "operation_id": "42",
    "table": "/srv/tables/ad_requests",
    "session_id": SESSION,
    "pid": 4711,
    "run_dir": "/srv/run/42",
}
REPLAY: dict[str, Any] = {
    "operation_id": "45",
    "table": "s3://lake/orders",
    "sink_options": {"hoodie.kafka.topic": "orders"},
    "directory": "s3://lake/orders-dead-letters",
    "letters": ["0:17"],
    "by": "admin",
}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (WriteJob, WRITE),
        (SinkJob, SINK),
        (RollbackJob, ROLLBACK),
        (CancelJob, CANCEL),
        (ReplayJob, REPLAY),
    ],
)
def test_job_is_the_same_after_json(job: Any, message: dict[str, Any]) -> None:
    sent = job.from_message(message)

    received = job.from_message(json.loads(json.dumps(sent.to_message())))

    assert received == sent
    assert message.items() <= received.to_message().items()


@pytest.mark.parametrize(
    ("job", "message"),
    [(WriteJob, WRITE), (SinkJob, SINK), (RollbackJob, ROLLBACK), (CancelJob, CANCEL)],
)
def test_message_with_a_key_too_many_or_too_few_is_refused(
    job: Any, message: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="unknown keys"):
        job.from_message(message | {"shell": "true"})
    with pytest.raises(InvalidInput, match="lacks a key"):
        job.from_message({key: message[key] for key in message if key != "operation_id"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("operation_id", "../42"),
        ("operation_id", 42),
        ("table", "tables/relative"),
        ("table", "/srv/tables/../../etc"),
        ("table", "/srv/tables/\x00"),
        ("table", "file:///srv/../etc"),
        ("source", {"kind": "../csv"}),
        ("source", {}),
        ("source", {"kind": ["csv"]}),
        ("source", {"kind": "csv", "paths": ["/etc/passwd"]}),
        ("source", "csv"),
        ("operation", "drop"),
        ("stream", ""),
        ("stream", "click\n"),
        ("options", {"sluice.writer.name": 7}),
        ("options", []),
        ("spark_conf", {"": "x"}),
        ("session_id", SESSION.upper()),
        ("session_id", "{" + SESSION + "}"),
        ("session_id", None),
        ("run_dir", "run/42"),
        ("report_url", "file:///etc/passwd"),
        ("report_url", "http://user:word@127.0.0.1/"),
    ],
)
def test_write_job_with_a_wrong_value_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidInput):
        WriteJob.from_message(WRITE | {key: value})


@pytest.mark.parametrize("pid", [0, 1, -4711, True, "4711", 2**40])
def test_cancel_never_signals_a_pid_that_cannot_be_a_driver(pid: object) -> None:
    with pytest.raises(InvalidInput):
        CancelJob.from_message(CANCEL | {"pid": pid})


@pytest.mark.parametrize("instant", ["2026", "2026010203040567x", "\uff120260102030405678", None])
def test_rollback_of_something_that_is_no_instant_is_refused(instant: object) -> None:
    with pytest.raises(InvalidInput):
        RollbackJob.from_message(ROLLBACK | {"instant": instant})


@pytest.mark.parametrize("message", [None, [], "{}", {1: "x"}])
def test_message_that_is_no_object_is_refused(message: object) -> None:
    with pytest.raises(InvalidInput):
        WriteJob.from_message(message)


@pytest.mark.parametrize(
    "changes",
    [
        {"application": "cluster"},
        {"sink_options": {"hoodie.kafka.topic": 5}},
        {"sink_options": ["orders"]},
        {"run_dir": "run/44"},
        {"session_id": "latest"},
    ],
    ids=str,
)
def test_sink_job_with_a_wrong_value_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SinkJob.from_message(SINK | changes)


def test_driver_program_tells_a_sink_from_a_write() -> None:
    assert isinstance(driver_job(SINK), SinkJob)
    assert isinstance(driver_job(WRITE), WriteJob)
    with pytest.raises(InvalidInput):
        driver_job([SINK])
