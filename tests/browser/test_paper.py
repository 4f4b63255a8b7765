"""What people file on paper: the plan of a rollback and the story of a conflict, each whole, by
day, without what only a screen can do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site
from tests.browser.test_pages import visit

pytestmark = pytest.mark.browser

PAPER = {"width": 688, "height": 1017}
"""A4 without its margins, in CSS pixels."""
ONLY_ON_A_SCREEN = ".rail, .bar, .demo-strip, .as-curl, .on-screen, main form button, .arrivals"


def printed(page: Page, picture: Path) -> None:
    page.set_viewport_size(PAPER)  # type: ignore[arg-type]
    page.emulate_media(media="print")
    page.screenshot(path=picture, full_page=True)


def check_paper(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER["width"]
    for shown in page.locator(ONLY_ON_A_SCREEN).all():
        expect(shown).to_be_hidden()
    cut = page.evaluate(
        "[...document.querySelectorAll('main .scroll')].filter("
        "box => box.scrollHeight > box.clientHeight + 1).map(box => box.ariaLabel)"
    )
    assert cut == [], "paper does not scroll"
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink != "rgb(255, 255, 255)", "ink is dark"


def test_plan_of_a_rollback_on_paper(page: Page, site: Site, seen: Seen, tmp_path: Path) -> None:
    page.goto(f"{site.url}/t/trips/rollback")
    page.get_by_role("link", name="Plan rollback").first.click()
    page.wait_for_selector("#id_reason")
    files = page.locator(".files tbody tr").count()
    assert files

    printed(page, tmp_path / "rollback-plan.png")

    check_paper(page)
    for row in page.locator(".files tbody tr").all():
        expect(row).to_be_visible()
    assert seen.console == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("which", ["write", "schema"])
def test_story_of_a_conflict_on_paper(
    which: str, theme: str, page: Page, site: Site, seen: Seen, tmp_path: Path
) -> None:
    page.context.add_cookies([{"name": "sluice_theme", "value": theme, "url": site.url}])
    visit(page, site, f"/t/contested/conflicts/{{{which}}}")

    printed(page, tmp_path / f"conflict-{which}-{theme}.png")

    check_paper(page)
    expect(page.locator("main h1")).to_be_visible()
    assert seen.console == []
