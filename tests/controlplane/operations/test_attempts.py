"""The attempts of an operation: who took its job, when, and how each attempt ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.operations.actions import do_reconcile, do_record_report, do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_detail
from controlplane.tables.models import Table


@pytest.fixture
def operation(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return do_request_write(table=synced, parameters=parameters, by=admin)


def report(operation: Operation, state: str, **more: Any) -> None:
    do_record_report({"operation_id": str(operation.pk), "state": state, **more})


def attempts(operation: Operation) -> list[tuple[int, str, int | None, str]]:
    detail = operation_detail(operation.pk, None)
    assert detail is not None
    return [
        (attempt.number, attempt.host, attempt.process, attempt.outcome)
        for attempt in detail.attempts
    ]


def test_an_attempt_has_its_worker_and_its_end(operation: Operation) -> None:
    assert attempts(operation) == [(1, "", None, "")]

    report(operation, "running", host="engine-7", process=41, pid=42)
    report(operation, "progress", host="engine-7", process=42)
    report(operation, "failed", message="out of memory", host="engine-7", process=42)

    assert attempts(operation) == [(1, "engine-7", 41, "failed")]
    detail = operation_detail(operation.pk, None)
    assert detail is not None
    (attempt,) = detail.attempts
    assert attempt.queue == "engine"
    times = [attempt.sent_at, attempt.started_at, attempt.ended_at]
    assert None not in times
    assert times == sorted(times, key=str)


def test_a_job_that_no_worker_takes_is_sent_in_a_second_attempt(operation: Operation) -> None:
    do_reconcile(now=timezone.now() + timedelta(minutes=1))

    assert attempts(operation) == [(1, "", None, "not_taken"), (2, "", None, "")]


def test_the_same_job_on_another_host_is_another_attempt(operation: Operation) -> None:
    report(operation, "running", host="engine-7", process=41)
    report(operation, "running", host="engine-8", process=9)

    assert attempts(operation) == [(1, "engine-7", 41, "lost"), (2, "engine-8", 9, "")]


@pytest.mark.parametrize("worker", [{"host": 7}, {"host": ""}, {"process": 3}, {}], ids=str)
def test_a_report_without_a_host_names_no_worker(
    worker: dict[str, Any], operation: Operation
) -> None:
    report(operation, "running", **worker)

    assert attempts(operation) == [(1, "", None, "")]


def test_a_process_that_is_not_a_number_is_left_out(operation: Operation) -> None:
    report(operation, "running", host="engine-7\x00", process="all")

    assert attempts(operation) == [(1, "engine-7", None, "")]


@pytest.mark.parametrize(
    ("columns", "left_s"),
    [
        ({"kind": "service", "state": "running"}, 20),
        ({"kind": "write", "state": "running"}, None),
        ({"kind": "service", "state": "succeeded"}, None),
        ({"kind": "service", "state": "running", "progress_done": 1}, None),
    ],
    ids=str,
)
def test_a_running_service_has_a_time_left(
    columns: dict[str, Any], left_s: int | None, operation: Operation
) -> None:
    begun = timezone.now() - timedelta(seconds=40)
    facts = {"service": "clean", "started_at": begun, "progress_done": 20, "progress_total": 30}
    Operation.objects.filter(pk=operation.pk).update(**{**facts, **columns})

    detail = operation_detail(operation.pk, None)

    assert detail is not None
    assert detail.row.left_s == (None if left_s is None else pytest.approx(left_s, abs=2))
