"""Spark's stages on an operation: what a report may say of them, and when they may be through."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from pytest_django import Settings

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_record_report, do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_detail
from controlplane.operations.spark_stages import STAGES_MAX, left_ms, stage_rows
from controlplane.settings.connections import page_address
from controlplane.tables.models import Table
from workers.reporting import OperationReport, ReportState, StageProgress

RUNNING = StageProgress(
    id=4,
    name="write file groups",
    state="running",
    tasks=40,
    done=10,
    running=8,
    bytes_read=2_000,
    elapsed_ms=5_000,
)


@pytest.fixture
def operation(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return do_request_write(table=synced, parameters=parameters, by=admin)


def report(operation: Operation, *stages: dict[str, Any]) -> None:
    sent = OperationReport(operation_id=str(operation.pk), state=ReportState.PROGRESS)
    do_record_report({**sent.to_message(), "stages": list(stages)})
    operation.refresh_from_db()


def test_stages_are_shown_as_their_driver_reported_them(operation: Operation) -> None:
    report(operation, RUNNING.to_message())

    [stage] = stage_rows(operation, timezone.now())
    assert (stage.id, stage.name, stage.state) == (4, "write file groups", "running")
    assert (stage.tasks, stage.done, stage.running, stage.failed) == (40, 10, 8, None)
    assert (stage.bytes_read, stage.pct) == (2_000, 25.0)
    assert stage.left_s == pytest.approx(15, abs=3)


def test_stage_of_which_nothing_is_heard_takes_longer(operation: Operation) -> None:
    report(operation, RUNNING.to_message())

    [stage] = stage_rows(operation, timezone.now() + timedelta(seconds=5))

    assert stage.left_s == pytest.approx(30, abs=3)


def test_nothing_runs_any_more_of_what_has_ended(operation: Operation) -> None:
    report(operation, RUNNING.to_message())
    Operation.objects.update(state="failed")
    operation.refresh_from_db()

    [stage] = stage_rows(operation, timezone.now())

    assert (stage.state, stage.running, stage.left_s) == ("ended", 0, None)


@pytest.mark.parametrize(
    ("tasks", "done", "running", "elapsed_ms", "left"),
    [
        (40, 10, 8, 5_000, 15_000),
        (40, 2, 0, 60_000, None),
        (40, 7, 8, 60_000, None),
        (40, 30, 8, 1_999, None),
        (40, 40, 0, 5_000, None),
        (0, 0, 0, 5_000, None),
    ],
)
def test_time_left_is_told_once_there_is_enough_to_tell_it_from(
    tasks: int, done: int, running: int, elapsed_ms: int, left: float | None
) -> None:
    assert left_ms(tasks=tasks, done=done, running=running, elapsed_ms=elapsed_ms) == left


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "flying"},
        {"tasks": -1},
        {"done": "3"},
        {"failed": True},
        {"bytes_read": 2**62},
        {"id": None},
    ],
    ids=str,
)
def test_a_malformed_stage_is_refused_and_keeps_what_was_there(
    operation: Operation, broken: dict[str, Any]
) -> None:
    report(operation, RUNNING.to_message())

    with pytest.raises(InvalidRequest):
        report(operation, RUNNING.to_message() | broken)
    with pytest.raises(InvalidRequest):
        report(operation, *[RUNNING.to_message()] * (STAGES_MAX + 1))

    operation.refresh_from_db()
    assert [stage.done for stage in stage_rows(operation, timezone.now())] == [10]


def test_a_report_without_stages_leaves_those_that_are_known(operation: Operation) -> None:
    report(operation, RUNNING.to_message())
    report(operation)

    assert len(stage_rows(operation, timezone.now())) == 1


def test_the_address_of_sparks_pages_is_the_nodes_and_never_a_reports(
    operation: Operation, admin: User, settings: Settings
) -> None:
    settings.SLUICE_SPARK_UI_URL = "https://spark.example.com/ui"
    report(operation, RUNNING.to_message() | {"ui_url": "https://evil.example.com"})
    shown = operation_detail(operation.pk, admin)
    operation.parameters["job"]["application"] = "own"
    operation.save()
    own = operation_detail(operation.pk, admin)

    assert shown is not None
    assert shown.spark_ui_url == "https://spark.example.com/ui"
    assert "evil" not in str(operation.stages)
    assert own is not None
    assert own.spark_ui_url == ""


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "//spark.example.com", "spark.example.com:4040", "http://"),
        *("https://me:secret@spark.example.com", "http://a b", "http://a\n", "file:///etc/passwd"),
    ],
)
def test_address_of_sparks_pages_is_http_alone(address: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="SLUICE_SPARK_UI_URL"):
        page_address({"SLUICE_SPARK_UI_URL": address}, "SLUICE_SPARK_UI_URL")

    assert page_address({"A": "http://127.0.0.1:4040/jobs/"}, "A") == "http://127.0.0.1:4040/jobs/"
    assert page_address({}, "A") == ""
