"""The list of all operations takes the filters of its page, and refuses what it does not know."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.operations.models import Operation
from controlplane.tables.models import Table

LIST = "/api/v1/operations/"


@pytest.fixture
def made(admin: User) -> dict[str, str]:
    now = timezone.now()
    tables = [
        Table.objects.create(slug=slug, name=slug, location=f"/lake/{slug}")
        for slug in ("ads", "rides")
    ]
    rows: dict[str, dict[str, Any]] = {
        "write": {"table": tables[0], "kind": "write", "requested_by": admin, "reason": "Again"},
        "clean": {
            "table": tables[1], "kind": "service", "service": "clean", "state": "succeeded",
            "started_at": now - timedelta(seconds=90), "finished_at": now,
        },
    }  # fmt: skip
    return {name: str(Operation.objects.create(**columns).pk) for name, columns in rows.items()}


@pytest.fixture
def reader(client: Client, viewer: User) -> Client:
    client.force_login(viewer)
    return client


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["clean", "write"]),
        ("table=ads", ["write"]),
        ("kinds=clean,rollback", ["clean"]),
        ("states=open", ["write"]),
        ("states=ended,queued", ["clean", "write"]),
        ("who=schedule", ["clean"]),
        ("text=again", ["write"]),
        ("since=2100-01-01T00:00:00Z", []),
        ("until=2100-01-01T00:00:00Z&limit=1", ["clean"]),
    ],
)
def test_each_filter_leaves_what_it_names(
    query: str, names: list[str], made: dict[str, str], reader: Client
) -> None:
    rows = reader.get(f"{LIST}?{query}").json()["results"]

    assert [row["id"] for row in rows] == [made[name] for name in names]


def test_a_row_says_how_long_it_lasted_and_what_it_waits_for(
    made: dict[str, str], reader: Client
) -> None:
    clean, write = reader.get(LIST).json()["results"]

    assert (clean["id"], clean["lasted_s"], clean["waits_for"]) == (made["clean"], 90.0, None)
    assert write["waits_for"]["words"] == "the queue, which has not taken its job yet"


@pytest.mark.parametrize(
    "query",
    [
        "kinds=nap",
        "states=asleep",
        "since=noon",
        "since=0001-01-01T00:00%2B14:00",
        "cursor=1",
        "x=1",
    ],
)
def test_an_unknown_filter_is_refused(query: str, db: None, reader: Client) -> None:
    answer = reader.get(f"{LIST}?{query}")

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"
