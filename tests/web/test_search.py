"""The search field finds more than tables, and only what the reader may see."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.tables.models import RowGrant, Table

QUERIES_MAX = 14


def search(client: Client, text: str) -> list[str]:
    """The addresses of the results; where it leads when it leads somewhere."""
    answer = client.get("/go", {"q": text})
    if answer.status_code == 302:
        return [answer["Location"]]
    html = answer.content.decode()
    return re.findall(r'<li>\s*<a href="([^"]+)"', html.partition("<main")[2])


@pytest.fixture
def ads(busy: Table) -> Table:
    HeartbeatRecord.objects.update(writer_name="nightly-loader")
    Operation.objects.update(reason="nightly repair")
    return busy


def test_search_from_anywhere_finds_every_kind(ads: Table, as_admin: Client, admin: User) -> None:
    operation = Operation.objects.get()
    instant = InstantRecord.objects.filter(action="rollback").get().requested_at

    assert search(as_admin, instant) == [f"/t/ads/timeline?sel={instant}"]
    assert search(as_admin, str(operation.pk)) == [f"/t/ads/operations/{operation.pk}"]
    assert search(as_admin, "nightly") == [
        f"/t/ads/operations/{operation.pk}",
        "/t/ads/writers",
    ]
    assert search(as_admin, "ada") == [f"/people/{admin.pk}"]
    assert search(as_admin, "approv") == ["/approvals"]
    assert search(as_admin, "nothing like it") == ["/tables/?q=nothing+like+it"]
    with CaptureQueriesContext(
        connection,
    ) as queries:
        search(as_admin, "nightly")
    assert len(queries) <= QUERIES_MAX


def test_search_finds_a_value_in_a_message_only_for_readers_of_the_rows(
    ads: Table, as_viewer: Client
) -> None:
    """A masked message that could be searched would give its values away, one guess at a time."""
    Operation.objects.update(message="ArrowInvalid: could not convert 'oslo-secret'")
    addresses = [f"/t/ads/operations/{Operation.objects.get().pk}"]

    assert search(as_viewer, "oslo-secret") == addresses

    RowGrant.objects.all().delete()
    assert search(as_viewer, "oslo-secret") == ["/tables/?q=oslo-secret"]
    assert search(as_viewer, "nightly repair") == addresses, "reasons stay searchable"


def test_search_shows_nobody_more_than_they_may_see(
    ads: Table, admin: User, client_of: dict[str, Client]
) -> None:
    roles = set(client_of) - {"anonymous", "operator", "admin"}
    for text in ("nightly", "ada", str(Operation.objects.get().pk), "audit"):
        for role in roles:
            addresses = " ".join(search(client_of[role], text))
            assert "/people" not in addresses
            assert "/audit" not in addresses
            assert role == "viewer" or "/t/ads" not in addresses
