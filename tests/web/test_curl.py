"""This page as curl: every twin answers whoever may see the page."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from controlplane.sql.limits import SqlLimits
from controlplane.tables.models import Table
from tests.support.schedules import nightly
from web.curl import TWINS
from web.parts import HEADER

WITH_MORE = {
    "operation", "approval", "audit-row", "marker-tree", "conflict", "channels", "audit",
    "access", "access-rows", "people", "connections", "schedule",
}  # fmt: skip
"""Pages about one thing of a table or a person's, and those of admins; some stand below."""


@pytest.fixture(autouse=True)
def patient_limits(settings: Settings) -> None:
    settings.SLUICE_SQL = SqlLimits(wall_s=250, cpu_s=250)


def curl_of(client: Client, address: str) -> str:
    page = client.get(address).content.decode()
    return html.unescape(re.findall(r'data-copy="(curl [^"]+)"', page)[0])


def path_of(curl: str) -> str:
    parts = urlsplit(shlex.split(curl)[-1])
    return f"{parts.path}?{parts.query}"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("page", sorted(set(TWINS) - WITH_MORE))
def test_the_twin_of_a_page_answers(page: str, as_viewer: Client, busy: Table) -> None:
    takes_table = page not in (
        "home", "tables", "operations", "approvals", "alerts", "alert-rules", "thresholds",
        "tokens", "approval-rules", "all-schedules",
    )  # fmt: skip
    address = reverse(page, args=[busy.slug] if takes_table else [])

    curl = curl_of(as_viewer, address)

    assert as_viewer.get(path_of(curl)).status_code == 200, curl
    assert "$SLUICE_TOKEN" in curl


@pytest.mark.parametrize(
    "page", ["audit", "people", "access", "access-rows", "channels", "connections"]
)
def test_the_twin_of_a_page_of_admins_answers(page: str, as_admin: Client, busy: Table) -> None:
    assert as_admin.get(path_of(curl_of(as_admin, reverse(page)))).status_code == 200


def test_things_of_a_table_have_twins_too(as_admin: Client, busy: Table) -> None:
    operation = busy.operations.get()
    lost = busy.conflicts.get(kind="write").loser_instant
    open_write = busy.heartbeats.get().instant

    things = (("operation", operation.pk), ("conflict", lost), ("marker-tree", open_write))
    for page, thing in things:
        curl = curl_of(as_admin, reverse(page, args=[busy.slug, thing]))
        assert path_of(curl).startswith("/api/v1/"), curl


def test_filters_are_called_as_the_api_calls_them(as_viewer: Client, busy: Table) -> None:
    query = "?table=ads&state=unanswered&kind=write&q=disk"

    curl = curl_of(as_viewer, f"{reverse('operations')}{query}")

    path = path_of(curl)
    assert path.endswith("?table=ads&kinds=write&states=unanswered&text=disk")
    assert as_viewer.get(path).status_code == 200


def test_a_shell_reads_a_filter_as_text(as_viewer: Client, busy: Table) -> None:
    curl = curl_of(as_viewer, f"{reverse('tables')}?q=%27%3B+rm+-rf+%24HOME+%27")

    assert shlex.split(curl)[-1].startswith("http://")
    assert "$HOME" not in shlex.split(curl)[-1]


def call(client: Client, curl: str) -> dict[str, Any]:
    """The answer to the request that this command makes."""
    words = shlex.split(curl)
    if "-d" in words:
        body = words[words.index("-d") + 1]
        answer = client.post(path_of(curl), body, content_type="application/json")
    else:
        answer = client.get(path_of(curl))
    assert answer.status_code == 200, (curl, answer.content)
    content: dict[str, Any] = answer.json()
    return content


def part_curl(part: bytes) -> str:
    """The one command below the rows of a part."""
    [curl] = re.findall(r'data-copy="(curl [^"]+)"', part.decode())
    return html.unescape(curl)


@pytest.mark.parametrize(
    ("path", "query", "has_rows"),
    [
        (
            "data/rows",
            {"where": "id > 2", "columns": ["city", "id"], "order_by": "-id", "limit": "20"},
            lambda answer: (
                [row["cells"] for row in answer["rows"]][:2] == [["Oslo", 8], ["Oslo", 7]]
                and len(answer["rows"]) == 6
            ),
        ),
        ("data/row/versions", {"key": "1"}, lambda answer: len(answer["versions"]) == 3),
        ("data/compare/rows", {}, lambda answer: len(answer["rows"]) == 9),
        ("data/changes/{newest}/rows", {}, lambda answer: len(answer["rows"]) == 9),
        (
            "data/plan/part",
            {"where": "id = 1"},
            lambda answer: [column["name"] for column in answer["columns"]] == ["id", "city", "ts"],
        ),
    ],
    ids=["rows", "history", "compare", "changes", "columns"],
)
def test_command_below_rows_answers_with_the_rows_of_the_page(
    path: str,
    query: dict[str, Any],
    has_rows: Callable[[dict[str, Any]], bool],
    as_admin: Client,
    trips: Table,
) -> None:
    newest = str(trips.instants.latest("completed_at").requested_at)
    part = as_admin.get(f"/t/trips/{path.format(newest=newest)}", query, headers={HEADER: "1"})

    answer = call(as_admin, part_curl(part.content))

    assert has_rows(answer), answer


def test_command_below_a_statement_sends_it_whatever_it_quotes(
    as_admin: Client, trips: Table
) -> None:
    statement = """SELECT "it's $HOME" AS words, count(*) AS n FROM trips"""
    part = as_admin.post("/sql", {"statement": statement}, headers={HEADER: "1"})

    answer = call(as_admin, part_curl(part.content))

    assert answer["rows"] == [["it's $HOME", 9]]


def test_schedules_of_all_tables_have_a_command_for_the_list_and_one_for_the_days(
    as_admin: Client, admin: User, trips: Table
) -> None:
    nightly(trips, admin)
    page = as_admin.get("/schedules").content.decode()

    commands = map(html.unescape, re.findall(r'data-copy="(curl [^"]+)"', page))
    answers = {path_of(curl): as_admin.get(path_of(curl)).status_code for curl in commands}

    assert answers == {"/api/v1/schedules/days/?days=14": 200, "/api/v1/schedules/?": 200}
