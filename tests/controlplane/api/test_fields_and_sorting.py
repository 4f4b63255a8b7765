"""Whoever reads chooses the fields of rows and the order of lists; what there is not is refused."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.operations.models import Operation
from controlplane.tables.models import Table

RULES = "/api/v1/alert-rules/"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/api/v1/tables/", "slug"),  # A page.
        ("/api/v1/tables/trips/", "name"),  # An object.
        (RULES, "check"),  # A whole list.
    ],
)
def test_an_answer_has_the_fields_that_were_chosen(
    client: Client, viewer: User, synced: Table, address: str, name: str
) -> None:
    client.force_login(viewer)

    answer = client.get(address, {"fields": f"{name},title" if address == RULES else name}).json()
    rows = answer if isinstance(answer, list) else answer.get("results", [answer])

    expected = {name, "title"} if address == RULES else {name}
    assert {frozenset(row) for row in rows} == {frozenset(expected)}
    if "results" in answer:
        assert set(answer) == {"results", "next_cursor"}


@pytest.mark.parametrize(
    ("query", "wrong"),
    [("fields=slug,password", "password"), ("fields=", None), ("fields=results", "results")],
)
def test_a_field_that_there_is_not_is_refused_with_those_that_there_are(
    client: Client, viewer: User, synced: Table, query: str, wrong: str | None
) -> None:
    client.force_login(viewer)

    refused = client.get(f"/api/v1/tables/?{query}")

    values = refused.json()["values"]
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert {"slug", "name"} <= set(values["known"])
    assert values.get("unknown") == (None if wrong is None else [wrong])


def test_fields_are_spoken_of_to_nobody_who_may_not_read(
    client: Client, nobody: User, synced: Table
) -> None:
    client.force_login(nobody)

    assert client.get("/api/v1/tables/?fields=password").status_code == 403


def test_a_whole_list_is_sorted_both_ways_and_by_nothing_else(client: Client, viewer: User) -> None:
    client.force_login(viewer)

    titles = [row["title"] for row in client.get(RULES, {"sort": "title"}).json()]
    turned = [row["title"] for row in client.get(RULES, {"sort": "-title"}).json()]
    refused = client.get(RULES, {"sort": "severity"})

    assert titles == sorted(titles)
    assert turned == titles[::-1]
    assert len(titles) > 5
    assert refused.status_code == 400
    assert refused.json()["values"] == {"unknown": ["severity"], "known": ["check", "title"]}


def test_the_document_names_fields_and_orders(client: Client, viewer: User) -> None:
    client.force_login(viewer)

    document = client.get("/api/v1/schema/?format=json").json()

    taken = {each["name"]: each for each in document["paths"][RULES]["get"]["parameters"]}
    assert "hold_minutes" in taken["fields"]["schema"]["items"]["enum"]
    assert set(taken["sort"]["schema"]["enum"]) == {"check", "-check", "title", "-title"}


@pytest.mark.parametrize("sort", ["started_at", "-started_at", "table_slug", "-requested_at"])
def test_a_list_in_pages_has_each_row_once_in_the_order_that_was_asked_for(
    client: Client, viewer: User, synced: Table, sort: str
) -> None:
    moments = [None, *(timezone.now() - timedelta(minutes=number) for number in (3, 1, 1, 2)), None]
    for number, moment in enumerate(moments):
        operation = Operation.objects.create(table=synced, kind="write", state="succeeded")
        Operation.objects.filter(pk=operation.pk).update(
            started_at=moment, requested_at=timezone.now() - timedelta(hours=number)
        )
    client.force_login(viewer)

    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/api/v1/operations/", {"sort": sort, "limit": "2", **cursor}).json()
        rows += page["results"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    shown = [row[sort.removeprefix("-")] for row in rows]
    present = [moment for moment in shown if moment is not None]
    assert len({row["id"] for row in rows}) == len(rows) == len(moments)
    assert present == sorted(present, reverse=sort.startswith("-"))
    assert shown[len(present) :] == [None] * (len(moments) - len(present))


def test_a_cursor_of_another_order_and_one_that_is_none_are_refused(
    client: Client, viewer: User, synced: Table
) -> None:
    for _ in range(3):
        Operation.objects.create(table=synced, kind="write", state="succeeded")
    client.force_login(viewer)
    address = "/api/v1/operations/"
    cursor = client.get(address, {"limit": "1", "sort": "kind"}).json()["next_cursor"]

    statuses = [
        client.get(address, {"limit": "1", "sort": sort, "cursor": text}).status_code
        for sort, text in [("kind", cursor), ("-kind", cursor), ("kind", "x"), ("kind", "W10=")]
    ]

    assert statuses == [200, 400, 400, 400]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("sort", ["requested_at", "-kind", "table_slug"])
@pytest.mark.parametrize(
    "place",
    [
        '["{sort}", Infinity, "1"]', '["{sort}", NaN, NaN]', '["{sort}", 1e400, "1"]',
        '["{sort}", {"a": []}, "1"]', '["{sort}", "9999-99-99", "1"]', '["{sort}", "1", {}]',
        '["{sort}", "\\u0000", "\\u0000"]', "[" * 700, "{}", "null", "1",
    ],
)  # fmt: skip
def test_whatever_a_cursor_holds_is_a_place_or_is_refused(
    client: Client, viewer: User, synced: Table, sort: str, place: str
) -> None:
    client.force_login(viewer)
    cursor = urlsafe_b64encode(place.replace("{sort}", sort).encode()).decode()

    answer = client.get("/api/v1/operations/", {"sort": sort, "cursor": cursor})

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"


@pytest.mark.parametrize("address", ["/api/v1/tables/", "/api/v1/tables/trips/conflicts/"])
def test_pages_name_the_orders_that_there_are(
    client: Client, viewer: User, synced: Table, address: str
) -> None:
    client.force_login(viewer)

    refused = client.get(address, {"sort": "password"})

    assert refused.status_code == 400
    assert "sorted by" in str(refused.json()["values"]["fields"]["sort"])
