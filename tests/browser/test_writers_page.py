"""Writers at work and the end of one, as an operator sees them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser


def test_new_writer_joins_the_cards_by_itself(page: Page, site: Site) -> None:
    site.change("beats")
    page.goto(f"{site.url}/t/ad-requests/writers")
    page.wait_for_selector('[data-mode="live"]')
    page.mouse.move(2, 2)

    instant = site.change("writer", name="late-joiner")

    card = page.locator(f'article[data-key="{instant}"]')
    expect(card).to_contain_text("late-joiner", timeout=20_000)
    expect(card.locator("[data-beat-left]")).to_contain_text("expires in")


def test_writer_is_ended_from_its_card_with_a_reason(page: Page, site: Site, seen: Seen) -> None:
    beside = site.instants["beside"]
    page.goto(f"{site.url}/t/contested/writers")
    card = page.locator(f'article[data-key="{beside}"]')
    expect(card).to_contain_text("Competes with")

    card.get_by_role("link", name="Stop writer").click()
    page.get_by_label("Reason").fill("it was started with the wrong day")
    page.get_by_role("button", name="Stop writer").click()

    expect(page.locator("main")).to_contain_text("it was started with the wrong day")
    page.goto(f"{site.url}/t/contested/writers")
    expect(page.locator(f'article[data-key="{beside}"]')).to_contain_text("stop requested")
    assert seen.console == []
