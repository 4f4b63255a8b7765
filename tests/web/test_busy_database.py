"""Answers of pages and of the API while another writer holds the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL has no write lock"),
]


@contextmanager
def write_lock() -> Iterator[None]:
    """A second connection is within a write."""
    name = str(connection.settings_dict["NAME"])
    with closing(sqlite3.connect(name, uri=True, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_write_that_waits_too_long_is_answered_with_503(viewer: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(viewer)
    zone = {"zone": "named", "name": "Asia/Tokyo"}

    with write_lock():
        read = client.get("/preferences")
        refused = client.post("/preferences", zone)
    after = client.post("/preferences", zone)

    assert read.status_code == 200
    assert (refused.status_code, refused["Retry-After"]) == (503, "2")
    assert "Another process holds the write lock" in refused.content.decode()
    assert after.status_code == 302


def test_api_names_the_problem(viewer: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(viewer)

    with write_lock():
        answer = client.post("/api/v1/tokens/", {"name": "ci"}, "application/json")

    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert answer.json()["code"] == "database_unavailable"


def test_other_failures_stay_internal(viewer: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(viewer)
    with connection.execute_wrapper(_fail):
        answer = client.get("/tables/")

    assert answer.status_code == 500


def _fail(*_: object) -> object:
    raise ValueError("a fault of ours")
