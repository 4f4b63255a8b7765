"""The live page while the table changes: it follows, and nothing moves under the reader's hand."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser

WRITERS = re.compile(r"/live/(writers$|parts\?names=.*writers)")
"""Addresses whose answers hold the writers: alone, or with other parts."""


@pytest.fixture
def live(page: Page, site: Site) -> Page:
    site.change("beats")
    page.goto(f"{site.url}/t/ad-requests/live")
    page.wait_for_selector('[data-mode="live"]')
    page.mouse.move(2, 2)
    # It asks for everything again when its stream starts; such an answer knows no later fault.
    page.wait_for_function("() => !document.querySelector('[data-live][aria-busy]')")
    return page


def top_of(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["y"]


def test_new_writer_appears_by_itself_and_without_a_reload(live: Page, site: Site) -> None:
    live.evaluate("window.stayed = true")

    instant = site.change("writer", name="newcomer")

    expect(live.locator(f'.writers tr[data-key="{instant}"]')).to_contain_text(
        "newcomer", timeout=20_000
    )
    assert live.evaluate("window.stayed")


def test_heartbeat_ages_by_itself_until_it_expires(live: Page, site: Site) -> None:
    instant = site.change("writer", name="silent")
    row = live.locator(f'tr[data-key="{instant}"]')
    expect(row).to_be_visible(timeout=20_000)
    first = row.locator("[data-beat-age]").inner_text()

    # Only the browser's clock moves: the mirror says nothing more of this writer.
    expect(row.locator("[data-beat-age]")).not_to_have_text(first, timeout=20_000)
    expect(row).to_contain_text("suspect", timeout=40_000)
    expect(row).to_contain_text("plan rollback", timeout=40_000)
    expect(row.locator(".strip")).to_have_class("strip tone-bad")


def test_conflict_that_comes_while_one_is_read_waits_behind_a_count(live: Page, site: Site) -> None:
    read = live.locator("article.conflict").first
    read.scroll_into_view_if_needed()
    read.hover()
    known, before = read.get_attribute("id"), top_of(live, "article.conflict")

    site.change("conflict", winner="early", loser="late-one")
    pill = live.locator(".arrivals")
    expect(pill).to_have_text("1 new", timeout=20_000)

    assert top_of(live, f"#{known}") == before
    assert live.locator("article.conflict").first.get_attribute("id") == known
    pill.click()
    expect(live.locator("article.conflict").first).to_contain_text("late-one", timeout=20_000)
    expect(pill).to_have_count(0)


def test_what_waited_comes_when_the_pointer_leaves_and_nothing_is_scrolled(
    live: Page, site: Site
) -> None:
    live.set_viewport_size({"width": 1440, "height": 2400})
    live.locator("article.conflict").first.hover()
    site.change("conflict", winner="early", loser="patient")
    expect(live.locator(".arrivals")).to_have_text("1 new", timeout=20_000)

    live.mouse.move(2, 2)

    expect(live.locator("article.conflict").first).to_contain_text("patient", timeout=20_000)


def test_page_scrolled_into_the_conflicts_stays_where_it_is(live: Page, site: Site) -> None:
    live.locator("article.conflict").nth(1).evaluate("it => it.scrollIntoView({block: 'start'})")
    live.wait_for_timeout(200)
    live.mouse.move(2, 300)
    read = f"#{live.locator('article.conflict').nth(1).get_attribute('id')}"
    scrolled, before = live.evaluate("scrollY"), top_of(live, read)

    site.change("conflict", winner="a", loser="b")
    instant = site.change("writer", name="during-scroll")
    live.wait_for_timeout(1_500)

    assert (live.evaluate("scrollY"), top_of(live, read)) == (scrolled, before)
    live.evaluate("scrollTo(0, 0)")
    expect(live.locator(f'tr[data-key="{instant}"]')).to_be_visible(timeout=20_000)


def test_conflict_leads_to_why_it_lost(live: Page, site: Site) -> None:
    site.change("conflict", winner="early", loser="asked-about")
    card = live.locator("article.conflict", has_text="asked-about")

    card.get_by_role("link", name="Why it lost").click()

    expect(live.get_by_role("heading", level=1)).to_have_text("Why asked-about lost")
    expect(live.get_by_role("heading", name="What to do now")).to_be_visible()


def test_groups_that_were_opened_stay_open_and_focus_stays(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/t/contested/conflicts/{site.instants['write']}")
    page.wait_for_selector('[data-mode="live"]')
    page.locator("summary", has_text="Only written by B").click()
    page.mouse.move(2, 2)

    site.change("conflict", table="contested", winner="a", loser="c")
    page.wait_for_timeout(1_200)

    assert page.locator(".between details[open]").count() == 1
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_paused_page_stands_still_and_catches_up(live: Page, site: Site) -> None:
    live.keyboard.press("p")
    expect(live.locator("[data-live-switch]")).to_have_attribute("data-mode", "paused")

    instant = site.change("writer", name="unseen")
    expect(live.locator("[data-live-word]")).to_contain_text("1 behind", timeout=20_000)
    assert live.locator(f'tr[data-key="{instant}"]').count() == 0

    live.keyboard.press("p")
    expect(live.locator(f'tr[data-key="{instant}"]')).to_be_visible(timeout=20_000)


def test_answer_that_comes_after_the_pause_changes_nothing(live: Page, site: Site) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    live.route(WRITERS, hold)
    instant = site.change("writer", name="asked-for-before")
    deadline = time.monotonic() + 20
    while not held and time.monotonic() < deadline:
        live.wait_for_timeout(50)

    live.keyboard.press("p")
    expect(live.locator("[data-live-switch]")).to_have_attribute("data-mode", "paused")
    with live.expect_response(WRITERS) as answered:
        held[0].continue_()
    answered.value.finished()
    live.wait_for_timeout(500)

    assert live.locator(f'tr[data-key="{instant}"]').count() == 0
    live.unroute(WRITERS)
    live.keyboard.press("p")
    expect(live.locator(f'tr[data-key="{instant}"]')).to_be_visible(timeout=20_000)


def test_without_a_stream_the_page_says_so_and_asks_by_itself(
    page: Page, site: Site, seen: Seen
) -> None:
    page.route("**/events/**", lambda route: route.abort())
    page.goto(f"{site.url}/t/ad-requests/live")
    page.mouse.move(2, 2)

    expect(page.locator("[data-banner]")).to_contain_text("No live events", timeout=40_000)
    instant = site.change("writer", name="polled")
    expect(page.locator(f'tr[data-key="{instant}"]')).to_be_visible(timeout=20_000)

    # And when the server is gone altogether, what is shown gets its time.
    page.route("**/live/**", _gone)
    expect(page.locator("[data-banner]")).to_contain_text("does not answer", timeout=20_000)


def _gone(route: Route) -> None:
    route.abort()


def test_part_that_fails_keeps_its_last_state_greyed_and_recovers(live: Page, site: Site) -> None:
    live.route(WRITERS, lambda route: route.fulfill(status=500, body="fault"))
    rows = live.locator(".writers tbody tr").count()

    instant = site.change("writer", name="hidden-by-a-fault")
    expect(live.locator("[data-banner]")).to_contain_text("could not be refreshed", timeout=20_000)
    assert live.locator(".writers tbody tr").count() == rows

    live.unroute(WRITERS)
    expect(live.locator(f'tr[data-key="{instant}"]')).to_be_visible(timeout=20_000)
    expect(live.locator("[data-banner]")).to_be_hidden()


def test_session_that_ended_leads_to_the_login_and_back(live: Page, site: Site) -> None:
    live.context.clear_cookies()

    site.change("writer", name="anyone")

    live.wait_for_url("**/login/?next=/t/ad-requests/live", timeout=20_000)


def test_demo_that_has_ended_is_started_again_from_its_page(
    page: Page, site: Site, seen: Seen
) -> None:
    location = site.change("demo_ended")
    try:
        page.goto(f"{site.url}/t/ad-requests/live")
        page.get_by_role("button", name="Start the demo again").click()

        expect(page.locator("main")).to_contain_text("The demo starts again: impression, click")
        expect(page.get_by_role("button", name="Start the demo again")).to_have_count(0)
        assert seen.console == []
    finally:
        site.change("demo_over", location=location)


def test_stream_waits_between_rounds_then_falls_silent_then_has_ended(
    page: Page, site: Site, seen: Seen
) -> None:
    """Nothing of it is pending and nothing changes in the database: its word changes by time."""
    operation = site.change("stream_round", stream="refund", ago_ms=7_000)
    try:
        page.goto(f"{site.url}/t/ad-requests/live")
        page.wait_for_selector('[data-mode="live"]')
        page.mouse.move(2, 2)
        row = page.locator('.writers tr[data-key="stream refund"]')
        joined = page.locator('[data-live=streams] tr[data-key="refund"]')
        expect(row.locator(".status")).to_have_text("waiting")
        expect(joined.locator(".status")).to_have_text("waiting")
        first = row.locator("[data-ago]").inner_text()
        due = int(row.locator("[data-due]").get_attribute("data-due") or 0)
        expect(row.locator("[data-ago]").first).not_to_have_text(first)

        expect(row.locator(".status")).to_have_text("silent", timeout=15_000)
        expect(joined.locator(".status")).to_have_text("silent", timeout=2_000)
        # In time, and not with the next regular question of the panel.
        assert page.evaluate("Date.now()") - due < 4_000

        site.change("operation", pk=operation, state="succeeded")
        expect(joined.locator(".rounds")).to_contain_text("ended")
        expect(joined.locator(".rounds")).to_contain_text("succeeded")
        expect(row).to_have_count(0)
        assert seen.console == []
    finally:
        site.change("stream_over", stream="refund")
