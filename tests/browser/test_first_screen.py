"""The live page's first screen, and the wall that shows it across a room."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site
from tests.browser.test_pages import choose, visit

pytestmark = pytest.mark.browser

FIRST_PX = 800
BOTTOM = "(part) => document.querySelector(part)?.getBoundingClientRect().bottom ?? 0"
READ_ACROSS_A_ROOM_PX = 40


def test_first_screen_holds_writers_join_and_conflicts(page: Page, site: Site) -> None:
    page.set_viewport_size({"width": 1440, "height": FIRST_PX})
    choose(page, site, demo="hidden")  # Its strip is for those who asked for a demo.
    visit(page, site, "/t/ad-requests/live")

    page.wait_for_function("() => !document.querySelector('[data-live][aria-busy]')")
    for part in (".writers tbody tr", ".area-streams tbody tr", "article.conflict .verdict"):
        # In one step, since a refresh may replace what was looked up.
        bottom = page.evaluate(BOTTOM, part)
        assert 0 < bottom <= FIRST_PX, part


def test_wall_goes_on_by_itself_stays_when_told_and_leaves(
    page: Page, site: Site, seen: Seen
) -> None:
    visit(page, site, "/t/ad-requests/live?wall=5")
    assert page.locator(".rail").is_hidden()
    figure = page.locator(".live-figures dd").first
    size_px = figure.evaluate("(e) => parseFloat(getComputedStyle(e).fontSize)")
    assert size_px >= READ_ACROSS_A_ROOM_PX

    page.wait_for_url(lambda url: "wall=5" in url and "/t/ad-requests/" not in url)
    page.keyboard.press("Space")

    expect(page.get_by_role("button", name="Stay here")).to_have_attribute("aria-pressed", "true")
    shown = page.url
    page.wait_for_timeout(6_000)
    assert page.url == shown
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: url.endswith("/live"))
    assert seen.console == []
