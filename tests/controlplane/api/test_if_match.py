"""A change that was meant for a state which is no more is refused, and only that one."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.tables.models import Table

RULE = "/api/v1/alert-rules/mirror/"
TABLE = "/api/v1/tables/trips/"


def put(client: Client, minutes: int, tag: str | None) -> Any:
    body = {"fires": "bad", "hold_minutes": minutes}
    headers = {} if tag is None else {"If-Match": tag}
    return client.put(RULE, body, "application/json", headers=headers)


def test_the_second_of_two_changes_to_what_both_read_is_refused(
    client: Client, admin: User
) -> None:
    client.force_login(admin)
    tag = client.get(RULE)["ETag"]

    first = put(client, 7, tag)
    second = put(client, 9, tag)

    assert first.status_code == 200
    assert (second.status_code, second.json()["code"]) == (412, "state_changed")
    assert client.get(RULE).json()["hold_minutes"] == 7
    assert put(client, 9, client.get(RULE)["ETag"]).status_code == 200


def test_without_the_header_the_last_one_wins(client: Client, admin: User) -> None:
    client.force_login(admin)

    assert [put(client, minutes, None).status_code for minutes in (7, 9)] == [200, 200]
    assert client.get(RULE).json()["hold_minutes"] == 9


@pytest.mark.parametrize("form", ["*", "W/{tag}", '"another", {tag}'])
def test_a_tag_counts_in_every_form_in_which_it_comes_back(
    client: Client, admin: User, form: str
) -> None:
    client.force_login(admin)

    answer = put(client, 7, form.format(tag=client.get(RULE)["ETag"]))

    assert answer.status_code == 200


def test_a_header_that_is_no_tag_is_refused(client: Client, admin: User) -> None:
    client.force_login(admin)

    assert put(client, 7, "tomorrow").status_code == 400


def test_what_moves_by_itself_voids_no_tag(client: Client, admin: User, synced: Table) -> None:
    client.force_login(admin)
    tag = client.get(TABLE)["ETag"]
    Table.objects.filter(pk=synced.pk).update(synced_at=None, sync_error="gone")

    changed = client.get(TABLE)
    answer = client.patch(
        TABLE,
        {"name": "Journeys", "reason": "clearer"},
        "application/json",
        headers={"If-Match": tag},
    )

    assert changed["ETag"] != tag  # Whoever reads gets the new answer, never 304.
    assert answer.status_code == 200, answer.content


def test_a_refused_change_leaves_no_trace_and_one_that_is_wrong_leaves_its_own(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    before = AuditEvent.objects.count()

    refused = client.delete(
        TABLE,
        {"reason": "old", "table_name": "trips"},
        "application/json",
        headers={"If-Match": '"0123456789abcdef-0"'},
    )

    assert refused.status_code == 412
    assert AuditEvent.objects.count() == before
    assert Table.objects.filter(pk=synced.pk).exists()


def test_whoever_may_not_change_it_learns_nothing_of_its_state(
    client: Client, viewer: User, synced: Table
) -> None:
    client.force_login(viewer)

    assert put(client, 7, '"0123456789abcdef-0"').status_code == 403
