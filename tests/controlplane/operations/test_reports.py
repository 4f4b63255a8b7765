"""Reports are hints: late, doubled and disordered ones do no harm, malformed ones are refused."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.operations.models import Operation
from controlplane.operations.services import record_report, request_write
from controlplane.tables.models import Table
from controlplane.writers.models import Report


@pytest.fixture
def operation(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return request_write(table=synced, parameters=parameters, by=admin)


def report(operation: Operation, state: str, **more: Any) -> dict[str, Any]:
    return {"operation_id": str(operation.pk), "state": state, **more}


def test_a_run_is_told_from_start_to_end(operation: Operation) -> None:
    record_report(report(operation, "running", pid=4711, message="started"))
    record_report(
        report(operation, "progress", progress={"done": 3, "total": 40, "unit": "rounds"})
    )
    record_report(report(operation, "succeeded", instant="20260101000000000"))

    operation.refresh_from_db()
    assert operation.state == "succeeded"
    assert (operation.pid, operation.instant) == (4711, "20260101000000000")
    assert (operation.progress_done, operation.progress_total) == (3, 40)
    assert operation.started_at is not None
    assert operation.finished_at is not None


@pytest.mark.parametrize(
    "order",
    list(itertools.permutations(["running", "progress", "succeeded"])),
    ids=" ".join,
)
def test_any_order_ends_in_the_final_state(operation: Operation, order: tuple[str, ...]) -> None:
    for state in (*order, *order):
        record_report(report(operation, state))

    operation.refresh_from_db()
    assert operation.state == "succeeded"


def test_a_late_running_report_does_not_reopen_what_failed(operation: Operation) -> None:
    record_report(report(operation, "failed", message="out of memory"))
    record_report(report(operation, "running", message="started"))

    operation.refresh_from_db()
    assert (operation.state, operation.message) == ("failed", "out of memory")


def test_progress_is_not_kept_as_a_report_of_its_own(operation: Operation) -> None:
    record_report(report(operation, "progress", progress={"done": 1, "total": 2, "unit": "t"}))

    assert not Report.objects.exists()


def test_a_report_about_nothing_we_know_is_told_so(operation: Operation) -> None:
    unknown = {"operation_id": str(uuid.uuid4()), "state": "running"}

    assert record_report(unknown) is False


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "done"},
        {"state": 1},
        {"operation_id": "not-a-uuid"},
        {"instant": "../../etc"},
        {"pid": -1},
        {"pid": True},
        {"progress": "half"},
        {"progress": {"done": 10**12, "total": 1, "unit": "x"}},
    ],
    ids=str,
)
def test_a_malformed_report_changes_nothing(operation: Operation, broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        record_report(report(operation, "running") | broken)

    operation.refresh_from_db()
    assert operation.state == "queued"
