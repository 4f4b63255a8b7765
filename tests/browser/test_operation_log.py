"""The log of a running operation: it follows whoever reads its end, and stands still for whoever
reads above.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser

LEFT_PX = "box => box.scrollHeight - box.scrollTop - box.clientHeight"


def test_log_follows_its_reader(page: Page, site: Site, seen: Seen) -> None:
    operation = site.change("stream_round", stream="logged", ago_ms=1_000)
    site.change("log", pk=operation, first=1, count=80)
    page.goto(f"{site.url}/t/ad-requests/operations/{operation}")
    page.wait_for_selector('[data-mode="live"]')
    lines, box = page.locator(".log .message"), page.locator(".log-lines")
    expect(lines.last).to_have_text("line 80.")
    assert box.evaluate(LEFT_PX) < 5

    site.change("log", pk=operation, first=81, count=9)
    expect(lines.last).to_have_text("line 89.")
    assert box.evaluate(LEFT_PX) < 5

    box.evaluate("box => { box.scrollTop = 100; }")
    site.change("log", pk=operation, first=90, count=9)
    expect(lines.last).to_have_text("line 98.")
    assert box.evaluate("box => box.scrollTop") == 100

    site.change("stream_over", stream="logged")
    assert seen.console == []
