"""The log on an operation's page: found by level and text, in pages, as a file, and harmless."""

from __future__ import annotations

import logging
import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.operations.actions import do_append_lines
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.test_untrusted_text import PAYLOADS, Elements
from workers.reporting.stored_lines import LogLine

QUERIES_MAX = 12
"""With its approval, and the pause of the writers of its table."""
LINES = 450


@pytest.fixture
def operation(admin: User) -> Operation:
    table = Table.objects.create(slug="ads", name="Ads", location="/lake/ads")
    operation = Operation.objects.create(
        table=table, kind="rollback", state="running", requested_by=admin
    )
    for first in range(0, LINES, 90):
        lines = [
            LogLine(at, 1_700_000_000_000 + at, logging.INFO, "workers.recovery", f"file {at}.")
            for at in range(first, first + 90)
        ]
        do_append_lines(operation.pk, lines, host="engine-7", stream="worker-0.log")
    lost = LogLine(LINES, 1_700_000_001_000, logging.WARNING, "workers.locks", "lease ran out")
    do_append_lines(operation.pk, [lost], host="engine-7", stream="worker-0.log")
    return operation


def address(operation: Operation, part: str = "") -> str:
    return f"/t/ads/operations/{operation.pk}{part}"


def shown(client: Client, url: str) -> tuple[list[str], str]:
    """The messages of a page, and the page."""
    answer = client.get(url)
    assert answer.status_code == 200, answer.content
    page = answer.content.decode()
    return re.findall(r'class="message">([^<]*)</td>', page), page


def test_the_page_ends_with_the_newest_lines_and_leads_back(
    operation: Operation, as_viewer: Client
) -> None:
    url, pages = address(operation), []
    for _ in range(3):
        messages, page = shown(as_viewer, url)
        pages.append(messages)
        older = re.search(r'href="([^"#]+)#log">Older', page)
        url = address(operation) + (older.group(1).replace("&amp;", "&") if older else "")

    assert [len(messages) for messages in pages] == [200, 200, 51]
    assert pages[0][-1] == "lease ran out"
    assert pages[2] + pages[1] + pages[0][:-1] == [f"file {at}." for at in range(LINES)]


def test_older_lines_lead_on_to_newer_ones(operation: Operation, as_viewer: Client) -> None:
    _, page = shown(as_viewer, address(operation))
    older = re.search(r'href="([^"#]+)#log">Older', page)
    assert older is not None
    _, page = shown(as_viewer, address(operation) + older.group(1))
    newer = re.search(r'href="([^"#]+)#log">Newer', page)
    assert newer is not None

    messages, _ = shown(as_viewer, address(operation) + newer.group(1))

    assert (messages[0], messages[-1]) == ("file 251.", "lease ran out")


@pytest.mark.parametrize(
    "query", ["level=warning", "q=LEASE", "q=workers.locks", "level=info&q=ran"]
)
def test_lines_are_found_on_the_server(query: str, operation: Operation, as_viewer: Client) -> None:
    whole, _ = shown(as_viewer, address(operation, f"?{query}"))
    part, _ = shown(as_viewer, address(operation, f"/log?{query}"))

    assert whole == part == ["lease ran out"]


def test_long_lines_are_wrapped_or_not(operation: Operation, as_viewer: Client) -> None:
    assert "is-unwrapped" not in shown(as_viewer, address(operation))[1]
    assert "is-unwrapped" in shown(as_viewer, address(operation, "?wrap=off"))[1]
    assert "is-unwrapped" in shown(as_viewer, address(operation, "/log?wrap=off"))[1]


def test_the_log_is_a_file_to_save(operation: Operation, as_viewer: Client) -> None:
    answer = as_viewer.get(address(operation, "/log/download?level=info"))

    lines = answer.content.decode().splitlines()
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="operation-{operation.pk}.log"'
    assert len(lines) == LINES + 1
    assert lines[0] == "2023-11-14T22:13:20.000Z INFO     engine-7#1 workers.recovery file 0."


def test_another_tables_address_does_not_show_it(operation: Operation, as_viewer: Client) -> None:
    Table.objects.create(slug="rides", name="Rides", location="/lake/rides")

    for part in ("log", "log/download"):
        assert as_viewer.get(f"/t/rides/operations/{operation.pk}/{part}").status_code == 404


@pytest.mark.parametrize("query", ["before=x", "after=-1", f"before={'9' * 19}", "level=loud"])
def test_a_place_that_is_none_is_refused(
    query: str, operation: Operation, as_viewer: Client
) -> None:
    assert as_viewer.get(address(operation, f"/log?{query}")).status_code == 400


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_line_becomes_markup(payload: str, operation: Operation, as_viewer: Client) -> None:
    line = LogLine(LINES + 1, 1_700_000_002_000, logging.ERROR, payload, payload)
    do_append_lines(operation.pk, [line], host=payload, stream="worker-0.log")

    page = Elements()
    page.feed(as_viewer.get(address(operation)).content.decode())

    assert page.strange == []


def test_the_page_asks_the_database_a_bounded_number_of_times(
    operation: Operation, as_viewer: Client
) -> None:
    with CaptureQueriesContext(connection) as queries:
        as_viewer.get(address(operation))

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
