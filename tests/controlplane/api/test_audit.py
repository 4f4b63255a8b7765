"""The audit over REST: who reads it, its filters and pages, the file of it, how its chain is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, User
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.actions import do_append_to_chain, do_record
from controlplane.audit.models import AuditEvent
from controlplane.audit.verification import do_verify_round

THERE = "/api/v1/audit/"
QUERIES_MAX = 12


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def auditor(db: None) -> User:
    user = User.objects.create_user("audrey", password="a long password")
    user.groups.add(Group.objects.get(name="auditor"))
    return user


@pytest.fixture
def rows(db: None) -> None:
    for number in range(5):
        do_record(
            who="ada" if number % 2 else "olaf",
            what="service.clean" if number < 3 else "sink.stop",
            subject="trips" if number < 4 else "orders",
            result="requested",
            reason=f"{number}",
            details={"operation": "none"},
        )
    do_append_to_chain()


def reasons(client: Client, query: str) -> list[str]:
    answer = client.get(THERE + query)
    assert answer.status_code == 200, answer.content
    return [row["reason"] for row in answer.json()["results"]]


def test_filters_and_pages(client: Client, auditor: User, rows: None) -> None:
    client.force_login(auditor)
    first = client.get(f"{THERE}?limit=2").json()
    second = client.get(THERE, {"limit": 3, "cursor": first["next_cursor"]}).json()

    assert [row["reason"] for row in first["results"] + second["results"]] == list("43210")
    assert second["next_cursor"] is None
    assert reasons(client, "?who=ada") == ["3", "1"]
    assert reasons(client, "?what=service.") == ["2", "1", "0"]
    assert reasons(client, "?what=service") == []
    assert reasons(client, "?object=orders&result=requested") == ["4"]
    third = AuditEvent.objects.get(reason="2").at.isoformat().replace("+00:00", "Z")
    assert reasons(client, f"?since={third}") == ["4", "3", "2"]
    assert reasons(client, f"?until={third}") == ["1", "0"]
    early = quote("0001-01-01T00:00:00+23:59")
    wrong = ("?whom=ada", "?since=now", f"?since={early}", "?cursor=x", f"?cursor={early}_1")
    assert [client.get(THERE + query).status_code for query in wrong] == [400] * len(wrong)


def test_a_row_has_its_place_in_the_chain_and_the_request_that_it_came_from(
    client: Client, auditor: User
) -> None:
    client.force_login(auditor)
    client.post("/api/v1/tokens/", {}, "application/json", headers={"X-Request-ID": "abcd-1234"})
    do_append_to_chain()

    (row,) = client.get(f"{THERE}?request_id=abcd-1234").json()["results"]

    assert (row["who"], row["what"], row["sequence"]) == ("audrey", "token.create", 1)
    assert client.get(f"{THERE}{row['id']}/").json() == row
    assert [client.get(f"{THERE}{key}/").status_code for key in (999, 10**30)] == [404, 404]


def test_the_chain_is_answered_with_what_the_last_check_said(
    client: Client, auditor: User, rows: None
) -> None:
    client.force_login(auditor)
    before = client.get(f"{THERE}chain/").json()
    do_verify_round(timezone.now())
    after = client.get(f"{THERE}chain/").json()
    do_verify_round(timezone.now() - timedelta(hours=1))
    stale = client.get(f"{THERE}chain/").json()

    assert [state["verdict"] for state in (before, after, stale)] == ["quiet", "good", "warn"]
    assert (after["sequence"], after["verified_sequence"], after["waiting"]) == (5, 5, 0)
    assert after["hash"] == AuditEvent.objects.get(sequence=5).hash


def test_an_export_has_the_rows_of_the_filter_and_is_a_row_itself(
    client: Client, auditor: User, rows: None
) -> None:
    client.force_login(auditor)

    response = client.get(f"{THERE}export/?file_format=json&what=sink.stop")

    assert response.streaming
    exported = json.loads(response.getvalue())
    assert [row["reason"] for row in exported] == ["4", "3"]
    stored = AuditEvent.objects.get(reason="4")
    assert (exported[0]["digest"], exported[0]["hash"]) == (stored.digest, stored.hash)
    noted = AuditEvent.objects.filter(what="audit.export", who="audrey").order_by("pk")
    assert [event.result for event in noted] == ["requested", "done"]
    assert noted[1].details == {"as": "json", "filter": {"what": "sink.stop"}, "rows": 2}
    assert client.get(f"{THERE}export/?file_format=xls").status_code == 400


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.django_db(transaction=True)
async def test_the_server_streams_it_without_blocking() -> None:
    user = await User.objects.acreate_superuser("root", password="a long password")
    await AuditEvent.objects.abulk_create(
        AuditEvent(who="w", what="x", object="o", result="done") for _ in range(1_200)
    )
    client = AsyncClient()
    await client.aforce_login(user)

    response = cast(StreamingHttpResponse, await client.get(f"{THERE}export/?what=x"))

    assert response.is_async
    pieces = [piece async for piece in cast(AsyncIterator[bytes], response.streaming_content)]
    assert len(pieces) == 4  # The head, and three pages of at most 500 rows.
    assert b"".join(pieces).count(b"\n") == 1_201


def test_queries_do_not_grow_with_the_rows(
    client: Client,
    auditor: User,
    rows: None,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    client.force_login(auditor)

    for address in (THERE, f"{THERE}chain/"):
        with django_assert_max_num_queries(QUERIES_MAX):
            assert client.get(address).status_code == 200


@pytest.mark.slow
def test_the_document_names_what_an_export_answers(client: Client, auditor: User) -> None:
    client.force_login(auditor)

    paths = client.get("/api/v1/schema/?format=json").json()["paths"]

    answers = paths[f"{THERE}export/"]["get"]["responses"]["200"]["content"]
    assert set(answers) == {"text/csv", "application/json", "application/vnd.apache.parquet"}
    named = {parameter["name"] for parameter in paths[THERE]["get"]["parameters"]}
    assert named == {
        *("who", "what", "object", "result", "request_id", "since", "until", "limit", "cursor"),
        *("fields", "sort"),
    }
