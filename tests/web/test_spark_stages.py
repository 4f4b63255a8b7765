"""The Spark stages on an operation's page: bars, what nobody knows, and a link to Spark's pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from controlplane.operations.models import Operation
from controlplane.tables.models import Table

STAGE: dict[str, Any] = {
    "id": 4,
    "name": "<script>write()</script>",
    "state": "running",
    "tasks": 40,
    "done": 10,
    "running": 8,
    "failed": None,
    "bytes_read": 2_000,
    "elapsed_ms": 5_000,
}


@pytest.fixture
def operation(admin: User) -> Operation:
    table = Table.objects.create(slug="ads", name="Ads", location="/lake/ads")
    stages = [{**STAGE, "id": 3, "state": "done", "done": 40}, STAGE]
    return Operation.objects.create(
        table=table,
        kind="write",
        state="running",
        requested_by=admin,
        parameters={"job": {"source": {"kind": "csv"}, "options": {}}},
        stages={"at": timezone.now().isoformat(), "stages": stages},
    )


def page_of(operation: Operation, client: Client) -> str:
    answer = client.get(f"/t/ads/operations/{operation.pk}/state")
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_stages_stand_on_the_page_with_what_is_left(
    operation: Operation, as_viewer: Client, settings: Settings
) -> None:
    settings.SLUICE_SPARK_UI_URL = ""
    page = page_of(operation, as_viewer)

    assert "10 of 40" in page
    assert re.search(r"about (1[5-9]|[23]\d) s", page)
    assert "unknown" in page
    assert "<script>write" not in page
    assert "Spark UI</a>" not in page


def test_link_to_sparks_pages_is_the_nodes_own(
    operation: Operation, as_viewer: Client, settings: Settings
) -> None:
    settings.SLUICE_SPARK_UI_URL = "https://spark.example.com/ui?a=1&b"

    page = page_of(operation, as_viewer)

    assert 'href="https://spark.example.com/ui?a=1&amp;b"' in page
