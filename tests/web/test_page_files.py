"""Every page that shows a list gives it as a file: with the page's filters, to whoever sees it."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from django.test import Client
from django.urls import NoReverseMatch, reverse

from controlplane.tables.models import Table
from tests.web.page_addresses import pages
from web.page_files import LISTS

FILES_OF_THEIR_OWN = {"tables", "operations", "audit", "data", "data-changes", "data-compare"}
NO_LIST_OF_ROWS = {
    "node-settings": "the settings of the node, which the API has not",
    "rollback": "a choice of instants, which the timeline has as a file",
    "effective-settings": "options with their values, which the API has",
    "trends": "figures of charts, which the API has",
    "unregister": "what would go with the table, before it goes",
}
"""Pages with a table that is no list, and why."""
OF_AUDITORS = {"people", "channels", "connections", "access", "access-rows"}
LINK = re.compile(r'href="(/api/v1/[^"]+file_format=[a-z]+[^"]*)" download')


def address(page: str, table: Table, query: str = "") -> str:
    takes = pages()[page]
    return reverse(page, kwargs={"slug": table.slug} if takes else {}) + query


def links(client: Client, page: str, table: Table, query: str = "") -> list[str]:
    shown = client.get(address(page, table, query)).content.decode()
    return [html.unescape(link) for link in LINK.findall(shown)]


def saved(client: Client, link: str) -> str:
    answer = client.get(link)
    assert answer.status_code == 200, (link, answer.status_code)
    assert answer["Content-Disposition"].startswith("attachment"), link
    return b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]  # it streams


@pytest.mark.slow
@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_each_list_of_a_page_is_a_file_for_whoever_sees_the_page(
    role: str, as_viewer: Client, as_admin: Client, busy: Table
) -> None:
    client = as_viewer if role == "viewer" else as_admin
    refused = set()
    for page in sorted(LISTS):
        if client.get(address(page, busy)).status_code == 403:
            refused.add(page)
            continue
        given = links(client, page, busy)
        always = [shown for shown in LISTS[page] if not shown.needs]
        assert len(given) == 3 * len(always) > 0, page
        for link in given:
            if link.endswith("file_format=csv"):
                assert len(next(csv.reader(io.StringIO(saved(client, link))))) > 1, link
    assert refused == (OF_AUDITORS if role == "viewer" else set())


def test_every_page_with_a_table_gives_it_as_a_file_or_says_why_not(
    as_admin: Client, busy: Table
) -> None:
    silent = []
    for page, takes in pages().items():
        if page in LISTS or page in FILES_OF_THEIR_OWN or page in NO_LIST_OF_ROWS:
            continue
        if takes - {"slug"}:
            continue  # About one thing.
        try:
            answer = as_admin.get(address(page, busy))
        except NoReverseMatch:
            continue
        shown = b"" if answer.streaming else answer.content
        if answer.status_code == 200 and b"<html" in shown and b"<tbody" in shown:
            silent.append(page)

    assert silent == []


def test_a_file_has_the_filters_of_its_page(as_viewer: Client, busy: Table) -> None:
    [conflicts] = [
        link for link in links(as_viewer, "conflicts", busy, "?kind=schema&before=")
        if "format=jsonl" in link
    ]  # fmt: skip
    newest = busy.instants.order_by("requested_at").last()
    assert newest is not None
    window = f"?from={newest.requested_at}&to=29990101000000000&action={newest.action}"
    [instants] = [
        link for link in links(as_viewer, "timeline", busy, window) if "format=jsonl" in link
    ]

    kinds = {json.loads(line)["kind"] for line in saved(as_viewer, conflicts).splitlines()}
    times = [json.loads(line) for line in saved(as_viewer, instants).splitlines()]

    assert kinds == {"schema"}
    assert newest.requested_at in {row["requested_at"] for row in times}
    assert {row["action"] for row in times} == {newest.action}
    assert len(times) < busy.instants.count()


def test_files_of_one_sink_are_there_once_it_is_chosen(as_viewer: Client, busy: Table) -> None:
    titles = {shown.name for shown in LISTS["sinks"] if shown.needs}

    chosen = links(as_viewer, "sinks", busy, "?sink=orders-in")

    assert len(chosen) == 3 * (1 + len(titles))
    assert any("/sinks/orders-in/transactions/?file_format=csv" in link for link in chosen)
