"""The demo's six steps in a browser: each is pressed as the next one and awaited until storage has
ticked it. Then the page that *Show me* opens shows what the step promises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM_ARGS, chromium

STEP_WITHIN_MS = 240_000
"""For two Spark jobs that start on a machine with other work."""
SLUG = "ad-requests"
_PROMISES = {
    "Two writers meet": [r"backfill-a", r"backfill-b"],
    "Two writers change the schema": [r"experiment_\d+_a", r"experiment_\d+_b", r"[Cc]ase 8"],
    "A writer is killed": [r"failed-writes|rolled back"],
    "A sink participant is killed": [r"committed"],
    "Clicks arrive late": [r"click"],
    "A wrong load is rolled back": [r"prices-in-cents|price_list"],
}
"""Step -> what the page behind *Show me* says once the step is done."""
_INSTANT = r"\b2\d{16}\b"
_WATCH = """
(pattern) => {
  window.seenAt = {};
  const look = () => {
    const instants = document.querySelector(".writers").textContent.match(new RegExp(pattern, "g"));
    for (const instant of instants ?? []) window.seenAt[instant] ??= Date.now();
  };
  look();
  window.seenBefore = Object.keys(window.seenAt);
  new MutationObserver(look).observe(document.querySelector(".writers"), {
    subtree: true, childList: true, characterData: true,
  });
}
"""
_SEEN = "() => Object.entries(seenAt).filter(([instant]) => !seenBefore.includes(instant))"


@contextmanager
def visitor(url: str, *, name: str, password: str) -> Iterator[tuple[Page, list[str]]]:
    """Sign in at `url`, which ends with a slash; give the page and the errors of its console."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type == "error" else None,
        )
        page.goto(f"{url}login/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", password)
        page.click("button[type=submit]")
        page.wait_for_url(url)
        yield page, complaints
        browser.close()


def expect_calm(page: Page, url: str) -> None:
    """Nothing needs a person, and no conflict is there, before the visitor pressed anything."""
    page.goto(url)
    expect(page.locator(".home .is-bad, .home .tone-bad, .home .tone-warn")).to_have_count(0)
    page.goto(f"{url}t/{SLUG}/live")
    expect(page.locator("article.conflict")).to_have_count(0)


def walk_steps(page: Page, url: str) -> None:
    """Walk all steps that are not ticked, on Home, and look where each leads."""
    page.goto(url)
    titles = page.locator(".demo-steps summary strong").all_inner_texts()
    assert titles == list(_PROMISES)
    for place, title in enumerate(titles):
        walk_step(page, url, place)
        expect_promise(page, url, place, _PROMISES[title])


def walk_step(page: Page, url: str, place: int) -> None:
    page.goto(url)
    step = page.locator(".demo-steps li").nth(place)
    ticked = step.locator("summary .visually-hidden", has_text="done")
    if ticked.count():
        return
    expect(step).to_have_attribute("aria-current", "step")
    with page.expect_navigation() as pressed:
        step.locator("button").click()
    assert pressed.value.ok, f"{pressed.value.status} for {page.url}"
    expect(page.locator("main > .notice.tone-bad")).to_have_count(0)
    if page.locator("#id_typed_name").count():
        _roll_back(page)
    page.goto(url)
    expect(ticked).to_have_count(1, timeout=STEP_WITHIN_MS)


def find_tour(count: int) -> list[int]:
    """Return numbers below `count` in an order in which every pair is adjacent once."""
    left = {place: list(range(count)) for place in range(count)}
    path, tour = [0], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            tour.append(path.pop())
    return tour[::-1]


def walk_pairs(page: Page, url: str, presses_max: int) -> Iterator[tuple[str, str, str]]:
    """Press the steps so that every one follows every one. Yield the step before, the step, and
    what was not seen of it; empty if the step kept its promise.
    """
    names = list(_PROMISES)
    before = ""
    for place in find_tour(len(names))[:presses_max]:
        try:
            press_again(page, url, place)
            expect_promise(page, url, place, _PROMISES[names[place]])
        except (AssertionError, PlaywrightError) as error:
            yield before, names[place], str(error).strip().splitlines()[0]
        else:
            yield before, names[place], ""
        before = names[place]


def press_again(page: Page, url: str, place: int) -> None:
    """Take all ticks away, press one step, and wait until storage has ticked it."""
    page.goto(f"{url}demo/reset")
    page.get_by_role("button", name="Restart the story").click()
    page.goto(url)
    step = page.locator(".demo-steps li").nth(place)
    expect(step.locator("summary .visually-hidden", has_text="done")).to_have_count(0)
    button = step.locator("form button")
    expect(button).to_be_enabled(timeout=STEP_WITHIN_MS)
    step.locator("details").evaluate("(fold) => { fold.open = true; }")
    with page.expect_navigation() as pressed:
        button.click()
    assert pressed.value.ok, f"{pressed.value.status} for {page.url}"
    expect(page.locator("main > .notice.tone-bad")).to_have_count(0)
    if page.locator("#id_typed_name").count():
        _roll_back(page)
    page.goto(url)
    ticked = step.locator("summary .visually-hidden", has_text="done")
    expect(ticked).to_have_count(1, timeout=STEP_WITHIN_MS)


def expect_promise(page: Page, url: str, place: int, patterns: Sequence[str]) -> None:
    page.goto(url)
    page.locator(".demo-steps li").nth(place).locator("a.button").click()
    for pattern in patterns:
        expect(page.locator("main").get_by_text(re.compile(pattern)).first).to_be_attached()


def _roll_back(page: Page) -> None:
    """From the plan of the wrong load to the proof from storage."""
    page.fill("#id_typed_name", page.locator(".crumbs a").nth(1).inner_text())
    page.fill("#id_reason", "prices a hundred times too high")
    page.locator("button.danger").click()
    page.wait_for_url("**/operations/*")
    expect(page.locator(".checks .tone-good")).to_have_count(3, timeout=STEP_WITHIN_MS)


def event_to_eye_ms(page: Page, url: str, *, events: int) -> list[float]:
    """From the moment in each new instant's name to its row on the live page, sorted."""
    page.goto(f"{url}t/{SLUG}/live")
    page.evaluate(_WATCH, _INSTANT)
    page.wait_for_function(f"() => ({_SEEN})().length >= {events}", timeout=STEP_WITHIN_MS)
    return sorted(at_ms - _moment_ms(instant) for instant, at_ms in page.evaluate(_SEEN))


def _moment_ms(instant: str) -> float:
    moment = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    return moment.timestamp() * 1000
