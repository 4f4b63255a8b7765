"""Whoever has an answer already is told that it holds, and only he."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake

INSTANTS = "/api/v1/tables/trips/instants/"


def test_an_answer_that_still_holds_is_304_until_something_happened(
    client: Client, viewer: User, synced: Table, lake: Lake
) -> None:
    client.force_login(viewer)
    first = client.get(INSTANTS)

    again = client.get(INSTANTS, headers={"If-None-Match": first["ETag"]})
    lake.commit({"id": "2", "ts": 2, "city": "Bergen"})
    sync_table(synced)
    afterwards = client.get(INSTANTS, headers={"If-None-Match": first["ETag"]})

    assert (first.status_code, first["Cache-Control"]) == (200, "private, no-cache")
    assert (again.status_code, again.content) == (304, b"")
    assert afterwards.status_code == 200
    assert len(afterwards.json()["results"]) == len(first.json()["results"]) + 1


def test_an_etag_opens_nothing_to_who_may_not_see_the_answer(
    client: Client, viewer: User, nobody: User, synced: Table
) -> None:
    client.force_login(viewer)
    etag = client.get(INSTANTS)["ETag"]
    client.force_login(nobody)

    refused = client.get(INSTANTS, headers={"If-None-Match": etag})
    client.logout()
    anonymous = client.get(INSTANTS, headers={"If-None-Match": etag})

    assert (refused.status_code, anonymous.status_code) == (403, 401)
    assert not refused.has_header("ETag")


def test_what_changes_state_is_never_answered_by_an_etag(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)

    planned = client.post(
        "/api/v1/tables/trips/services/clean/plan/",
        {},
        "application/json",
        headers={"If-None-Match": "*"},
    )

    assert planned.status_code == 200
    assert not planned.has_header("ETag")
