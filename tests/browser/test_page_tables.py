"""Every table of a page as a file, as it is shown: also one that is no list of the API."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Seen, Site
from tests.browser.test_pages import PAGES, STILL, visit

pytestmark = pytest.mark.browser

PLACE = "[data-page-tables]"
UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def tables_as(words: str, page: Page) -> list[str]:
    """The content of each table's file."""
    contents = []
    for button in page.locator(f"{PLACE} button", has_text=words).all():
        with page.expect_download() as download:
            button.click()
        contents.append(Path(download.value.path()).read_text(encoding="utf-8"))
    return contents


def opened(page: Page) -> None:
    page.locator(f"{PLACE} > summary").click()
    page.wait_for_selector(f"{PLACE} button")


def test_a_table_that_is_no_list_of_the_api_is_saved_as_it_is_shown(
    page: Page, site: Site, seen: Seen
) -> None:
    visit(page, site, "/settings")
    opened(page)

    rows = list(csv.reader(tables_as("CSV", page)[0].splitlines()))
    objects = json.loads(tables_as("JSON", page)[0])

    shown = page.locator("main table").first
    assert rows[0] == shown.locator("thead th").all_inner_texts()
    assert [row[0] for row in rows[1:]] == shown.locator(
        "tbody tr > :first-child"
    ).all_inner_texts()
    assert [[*one.values()] for one in objects] == rows[1:]
    assert seen.console == []


def test_moments_are_utc(page: Page, site: Site) -> None:
    visit(page, site, "/audit")
    opened(page)

    [content] = tables_as("CSV", page)

    moments = {row["Time"] for row in csv.DictReader(content.splitlines())}
    assert moments
    assert all(UTC.match(moment) for moment in moments)


def test_a_text_that_a_spreadsheet_would_compute_is_defused(page: Page, site: Site) -> None:
    visit(page, site, "/audit")
    page.evaluate("document.querySelector('main tbody td').textContent = '=1+1, \"quoted\"'")
    opened(page)

    [content] = tables_as("CSV", page)

    assert '\'=1+1, "quoted"' in {cell for row in csv.reader(content.splitlines()) for cell in row}


def test_every_table_of_every_page_has_its_file(page: Page, site: Site, seen: Seen) -> None:
    lacking = []
    for name, path in {**PAGES, **STILL}.items():
        visit(page, site, path)
        tables = page.locator("main table").count()
        if not tables:
            if page.locator(PLACE).count() and page.locator(PLACE).is_visible():
                lacking.append(f"{name}: offers files of no table")
            continue
        opened(page)
        if (files := page.locator(f"{PLACE} button", has_text="CSV").count()) < tables:
            lacking.append(f"{name}: {files} files of {tables} tables")

    assert lacking == []
    assert seen.console == []
