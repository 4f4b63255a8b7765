"""Rows in a browser: the part behind the frame, a filter's problem at its field, time travel along
the commits, and a statement that is saved as a file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser

READ_MS = 60_000
ROWS = "[data-part]:not([aria-busy]) section"


def test_rows_follow_the_filter_and_the_slider_and_back_leads_back(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/trips/data")
    page.wait_for_selector(ROWS, timeout=READ_MS)

    page.fill("#where", "town = 'Oslo'")
    page.keyboard.press("Enter")
    expect(page.locator("#where-problem")).to_contain_text("Column town not found", timeout=READ_MS)
    expect(page.locator("#where")).to_have_attribute("aria-invalid", "true")

    page.fill("#where", "")
    page.focus(".slider input")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**as_of=*")
    page.wait_for_selector(ROWS, timeout=READ_MS)
    assert page.input_value("#as_of")
    expect(page.locator("[data-part] .panel-head")).to_contain_text("as of")

    page.go_back()
    page.wait_for_url("**where=town*")
    expect(page.locator("#where")).to_have_value("town = 'Oslo'")
    assert seen.console == []


def test_row_leads_to_its_history_and_on_to_what_a_commit_changed(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/trips/data")
    page.wait_for_selector(ROWS, timeout=READ_MS)

    page.locator(".row-tools a").first.click()
    page.wait_for_selector(".versions li", timeout=READ_MS)
    page.locator("text=All changes of this commit").first.click()
    page.wait_for_selector(f"{ROWS}, [data-part] .empty", timeout=READ_MS)

    assert "/data/changes/" in page.url
    assert seen.console == []


def test_statement_runs_by_keyboard_and_is_saved_as_a_file(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/sql")
    page.fill("#statement", "SELECT count(*) AS n FROM trips")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(ROWS, timeout=READ_MS)

    with page.expect_download(timeout=READ_MS) as download:
        page.click("button[value=csv]")

    assert Path(download.value.path()).read_text().splitlines()[0] == "n"
    assert seen.console == []


def test_editor_suggests_tables_and_columns_and_tab_takes_one(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/sql")
    suggestions = page.locator("#statement-words [role=option]")

    page.locator("#statement").press_sequentially("SELECT * FROM tri")
    expect(suggestions.first).to_have_text("tripstable")
    page.keyboard.press("Tab")
    expect(page.locator("#statement")).to_have_value("SELECT * FROM trips")

    page.fill("#statement", "")
    page.locator("#statement").press_sequentially("SELECT trips.ci")
    expect(suggestions).to_have_count(1)
    expect(suggestions.first).to_have_text("citycolumn of trips")
    expect(suggestions.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    expect(page.locator("#statement")).to_have_value("SELECT trips.city")

    page.locator("#statement").press_sequentially(" FROM trips t WHERE t.c")
    expect(suggestions).to_have_text(["citycolumn of trips"])
    page.keyboard.press("Escape")
    expect(page.locator("#statement-words")).to_be_hidden()
    assert seen.console == []
