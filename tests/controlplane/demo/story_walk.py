"""The demo's six steps, by a browser: each is pressed where the strip says that it is next, and
awaited until storage has ticked it.
"""

from __future__ import annotations

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM_ARGS, chromium

STEP_WITHIN_MS = 180_000
"""Of a Spark that was just started, on a machine that does something else besides."""
SLUG = "ad-requests"
_TITLES = ".demo-steps h3"


def walk_story(url: str, *, name: str, password: str) -> list[str]:
    """Signs in at `url` (with a slash at its end) and walks all steps that are not ticked. What the
    browser's console complained about.
    """
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type == "error" else None,
        )
        _sign_in(page, url, name, password)
        steps = page.goto(f"{url}t/{SLUG}/live") and page.locator(_TITLES).count()
        for _ in range(steps or 0):
            _step(page, url)
        expect(page.locator(".demo-next")).to_have_count(0)
        browser.close()
    return complaints


def _sign_in(page: Page, url: str, name: str, password: str) -> None:
    page.goto(f"{url}login/")
    page.fill("[name=username]", name)
    page.fill("[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_url(url)


def _step(page: Page, url: str) -> None:
    """The next one, unless all are ticked."""
    page.goto(f"{url}t/{SLUG}/live")
    if not page.locator(".demo-next").count():
        return
    place = page.locator(".demo-steps li").evaluate_all(
        "steps => steps.findIndex(step => step.ariaCurrent === 'step')"
    )
    with page.expect_navigation():
        page.locator(".demo-next button").click()
    if page.locator("#id_typed_name").count():
        _take_back(page)
        page.goto(f"{url}t/{SLUG}/live")
    ticked = page.locator(".demo-steps li").nth(place).locator(".visually-hidden", has_text="done")
    expect(ticked).to_have_count(1, timeout=STEP_WITHIN_MS)


def _take_back(page: Page) -> None:
    """The wrong load's plan, through to the proof from storage."""
    page.fill("#id_typed_name", page.locator(".crumbs a").nth(1).inner_text())
    page.fill("#id_reason", "prices a hundred times too high")
    page.locator("button.danger").click()
    page.wait_for_url("**/operations/*")
    expect(page.locator(".checks .tone-good")).to_have_count(3, timeout=STEP_WITHIN_MS)
