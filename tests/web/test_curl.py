"""This page as curl: every twin answers whoever may see the page."""

from __future__ import annotations

import html
import re
import shlex
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.tables.models import Table
from web.curl import TWINS

WITH_MORE = {
    "operation", "approval", "audit-row", "marker-tree", "conflict", "channels", "audit",
    "access", "access-rows", "people", "connections",
}  # fmt: skip
"""Pages about one thing of a table or a person's, and those of admins; some stand below."""


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
        "tokens", "approval-rules",
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
