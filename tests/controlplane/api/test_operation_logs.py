"""The log of an operation over REST: reported by its own worker, read in pages and as text."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.operations.models import LogLine, Operation
from controlplane.tables.models import Table
from workers.reporting.log_reporter import build_log_url
from workers.reporting.stored_lines import LINES_MAX
from workers.reporting.tokens import build_report_token

REPORTS = "/api/v1/reports/operations/"


@pytest.fixture
def operation(db: None) -> Operation:
    table = Table.objects.create(slug="ads", name="Ads", location="/lake/ads")
    return Operation.objects.create(table=table, kind="write", state="running")


def body(operation: Operation, count: int = 3, **changed: Any) -> dict[str, Any]:
    lines = [
        {"number": at, "at_ms": 1_700_000_000_000, "level": 25, "source": "w", "message": f" {at} "}
        for at in range(count)
    ]
    facts = {"host": "engine-7", "stream": "driver.log", "attempt": 1, "lines": lines}
    return {"operation_id": str(operation.pk), **facts, **changed}


def report(client: Client, operation: Operation, key: str, sent: dict[str, Any]) -> int:
    token = build_report_token(key, str(operation.pk))
    answer = client.post(
        build_log_url(REPORTS),
        sent,
        "application/json",
        headers={"Authorization": f"Worker {token}"},
    )
    return answer.status_code


def test_what_a_worker_reports_is_read_by_a_viewer(
    operation: Operation, client: Client, viewer: User, settings: Settings
) -> None:
    assert report(client, operation, settings.SLUICE_WORKER_TOKEN, body(operation)) == 204
    assert report(client, operation, settings.SLUICE_WORKER_TOKEN, body(operation)) == 204
    client.force_login(viewer)

    newest = client.get(f"/api/v1/operations/{operation.pk}/log/?limit=2").json()
    older = client.get(f"/api/v1/operations/{operation.pk}/log/?before={newest['older']}").json()
    matching = client.get(f"/api/v1/operations/{operation.pk}/log/?text=1&level=info").json()
    text = client.get(f"/api/v1/operations/{operation.pk}/log/download/")

    assert [row["message"] for row in newest["rows"]] == [" 1 ", " 2 "]
    assert [row["message"] for row in older["rows"]] == [" 0 "]
    assert [row["message"] for row in matching["rows"]] == [" 1 "]
    assert (older["older"], newest["newer"]) == (None, newest["rows"][-1]["id"])
    row = newest["rows"][0]
    assert (row["level"], row["host"], row["attempt"]) == ("info", "engine-7", 2)
    assert text["Content-Disposition"].startswith("attachment")
    assert len(text.content.splitlines()) == 3


def test_a_token_reports_about_its_own_operation_only(
    operation: Operation, client: Client, settings: Settings
) -> None:
    other = Operation.objects.create(table=operation.table, kind="write")

    assert report(client, other, settings.SLUICE_WORKER_TOKEN, body(operation)) == 403
    assert report(client, operation, "another key", body(operation)) == 401
    assert not LogLine.objects.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"stream": "../etc/passwd"},
        {"lines": [{"number": -1, "at_ms": 0, "level": 20, "source": "w", "message": ""}]},
        {"lines": [{"number": 0, "at_ms": 10**15, "level": 20, "source": "w", "message": ""}]},
        {"lines": "all"},
        {"attempt": 1001},
        {"secret": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_wrong_report_is_refused_before_anything_is_stored(
    changed: dict[str, Any], operation: Operation, client: Client, settings: Settings
) -> None:
    sent = body(operation, **changed)

    assert report(client, operation, settings.SLUICE_WORKER_TOKEN, sent) == 400
    assert not LogLine.objects.exists()


def test_a_report_is_bounded(operation: Operation, client: Client, settings: Settings) -> None:
    key = settings.SLUICE_WORKER_TOKEN

    assert report(client, operation, key, body(operation, LINES_MAX)) == 204
    assert report(client, operation, key, body(operation, LINES_MAX + 1)) == 400
