"""The Streams page: from a key that waits to the stream that it waits for, in one click."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser


def test_one_click_says_why_a_value_is_missing(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/ad-join/streams")
    page.wait_for_selector(".chart-wait", state="detached")
    expect(page.locator(".matrix tbody tr").first).to_contain_text("has impression")

    page.get_by_role("link", name="Why?").first.click()
    expect(page.locator(".answer-words")).to_contain_text("It has impression")
    expect(page.locator(".answer table")).to_contain_text("A write of conversion with this key")

    page.get_by_label("Record key").fill("r00-02")
    page.locator("#why-column").select_option("clicks")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".answer-words")).to_contain_text("click deleted its part of this key")
    assert seen.console == []


def test_a_stream_is_declared_from_the_page(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/ad-join/streams")
    page.get_by_role("link", name="Declare a stream").click()
    page.get_by_label("Name", exact=True).fill("refund")
    page.get_by_label("Ordering column (new)").fill("refunded_at")
    page.get_by_label("Columns").fill("refund double\nrefund_note text")
    page.fill("#id_typed_name", "ad-join")
    page.fill("#id_reason", "refunds join the table")
    page.get_by_role("button", name="Declare stream").click()
    expect(page.locator(".problem")).to_contain_text("refund_note text")

    page.get_by_label("Columns").fill("refund double\nrefund_note string")
    page.get_by_role("button", name="Declare stream").click()
    expect(page.locator(".notice.tone-good")).to_contain_text("The stream refund is declared")

    site.change("sync", table="ad-join")
    page.reload()
    expect(page.locator("[data-key=refund]")).to_contain_text("by refunded_at")
    assert [one for one in seen.console if "422" not in one] == []
