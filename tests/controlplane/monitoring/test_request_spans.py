"""One trace goes from a request over the operation's signed message to the job and its driver."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from celery._state import _task_stack
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

import controlplane.celery
import workers.traces
from controlplane.mirror.tasks import sync_tables
from controlplane.operations.actions import do_start_sink
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.collector import SentSpan, spans_of
from tests.support.receivers import Receiver, receiving
from workers.reporting.tokens import SIGNATURE, sign_message
from workers.spark.process import driver_environment
from workers.tasks import rollback
from workers.trace_export import ExportedTracing
from workers.traces import PARENT, PARENT_VARIABLE, current_parent, flush_traces, span


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Gets the spans of this process."""
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.port}")
        tracing = ExportedTracing(os.environ, "sluice-test")
        monkeypatch.setattr(workers.traces, "_of_process", [tracing])
        yield receiver
        tracing.close()


def sent(collector: Receiver) -> dict[str, SentSpan]:
    flush_traces()
    return {one.name: one for one in spans_of(collector)}


def test_a_request_is_a_span_by_its_route_and_no_caller_chooses_its_trace(
    collector: Receiver, client: Client, lake: Lake, admin: User
) -> None:
    client.force_login(admin)
    chosen = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    answer = client.get("/api/v1/tables/?c4nary=1", headers={"traceparent": chosen})

    spans = sent(collector)
    request = spans["request GET"]
    assert request.attributes == {
        "http.request.method": "GET",
        "http.route": "api:tables",
        "http.response.status_code": 400,
        "sluice.request_id": answer["X-Request-ID"],
    }
    assert request.trace not in chosen
    assert b"c4nary" not in b"".join(one.body for one in collector.received)


def test_an_operation_takes_its_trace_along_to_its_job_and_its_driver(
    collector: Receiver, lake: Lake, admin: User, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    messages: list[tuple[str, Any, dict[str, Any]]] = []

    def keep(task: str, args: Any, headers: dict[str, Any], **_given: Any) -> None:
        messages.append((task, args, headers))

    monkeypatch.setattr(controlplane.celery.app, "send_task", keep)
    with span("request POST"), django_capture_on_commit_callbacks(execute=True):
        do_start_sink(lake.row, OPTIONS, by=admin)
    [(task, [message], headers)] = messages
    with span("launch"):
        passed_on, at_launch = driver_environment({}, "an-operation"), current_parent()

    spans = sent(collector)
    operation = spans["operation sink"]
    assert operation.parent == spans["request POST"].span
    assert operation.attributes["sluice.table"] == lake.row.slug
    assert headers[PARENT].startswith(f"00-{operation.trace}-{operation.span}-")
    body = json.loads(json.dumps(message))
    key = settings.SLUICE_WORKER_TOKEN
    assert headers[SIGNATURE] == sign_message(key, task, body, headers[PARENT])
    assert headers[SIGNATURE] != sign_message(key, task, body)
    assert passed_on[PARENT_VARIABLE] == at_launch != ""


def test_a_job_is_a_span_below_the_one_that_its_message_names(
    collector: Receiver, lake: Lake
) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    message = {
        "operation_id": "an-operation", "table": str(lake.table.storage.location),
        "instant": "20260101000000000", "plan_hash": "x", "reason": "none", "by": "mia",
    }  # fmt: skip

    _task_stack.push(rollback)
    rollback.push_request(**{PARENT: f"00-{trace}-{parent}-01"})
    try:
        rollback.run(message)
    finally:
        rollback.pop_request()
        _task_stack.pop()

    job = sent(collector)["job worker"]
    assert (job.trace, job.parent) == (trace, parent)
    assert job.attributes == {"sluice.operation": "an-operation", "sluice.job": "RollbackJob"}


def test_a_round_of_the_mirror_is_a_span_above_those_of_its_tables(
    collector: Receiver, lake: Lake
) -> None:
    sync_tables()

    spans = sent(collector)
    assert spans["mirror round"].attributes["sluice.tables.synced"] == 1
    assert spans["mirror sync"].parent == spans["mirror round"].span
    assert spans["mirror sync"].attributes == {"sluice.table": lake.row.slug}
