"""The navigation: grouped, by rights, and it shows where one is; the manual that it leads to."""

from __future__ import annotations

import re

from django.test import Client

from controlplane.tables.models import Table
from web.pages.manual import load_page, load_titles
from web.shell import NODE_GROUPS, TABLE_GROUPS


def test_keys_are_bound_once() -> None:
    keys = [
        place.key for group in (*NODE_GROUPS, *TABLE_GROUPS) for place in group.places if place.key
    ]

    assert len(keys) == len(set(keys))


def test_pages_of_a_table_are_grouped_and_the_menu_names_the_current_one(
    trips: Table, as_viewer: Client
) -> None:
    html = as_viewer.get("/t/trips/schema").content.decode()
    (here,) = re.findall(r'<span class="menu-here">(.*?)</span>', html, re.DOTALL)

    assert " ".join(here.split()) == "trips · Schema"
    assert re.findall(r'<summary class="nav-title">(.*?)</summary>', html) == [
        "Administration", "Now", "Data", "History", "Run"
    ]  # fmt: skip
    assert html.count('aria-current="page"') == 2  # In the navigation and in the breadcrumb.
    assert 'data-go="u"' not in html


def test_folded_group_is_open_on_a_page_of_it(as_admin: Client) -> None:
    folded, opened = (as_admin.get(path).content.decode() for path in ("/tokens", "/tables/"))

    assert [" open" in re.search(r'<details class="nav"[^>]*>', html)[0]  # type: ignore[index]
            for html in (folded, opened)] == [True, False]  # fmt: skip


def test_manual_shows_every_document_and_links_between_them(as_viewer: Client) -> None:
    listed = as_viewer.get("/manual/").content.decode()
    page = as_viewer.get("/manual/streams").content.decode()

    assert 'href="/manual/decisions/README"' in listed
    assert as_viewer.get("/manual/no-such-page").status_code == 404
    assert '<div class="scroll" tabindex="0"' in page
    for name in load_titles():
        html = load_page(name).html
        for there in re.findall(r'href="/manual/([^"#]*)', html):
            assert there in load_titles(), f"{name} links to {there}"
        assert "style=" not in html
        assert not re.findall(r'href="(?!https?:|/manual/|#)', html), name
