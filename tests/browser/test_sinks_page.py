"""The Sinks page: who is missing is seen at once, and what changes is drawn without a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site
from tests.browser.test_pages import problems

pytestmark = pytest.mark.browser


def test_missing_participant_is_named_and_its_report_clears_the_page(
    page: Page, site: Site, seen: Seen
) -> None:
    site.change("sink", table="orders", missing=4)
    page.goto(f"{site.url}/t/orders/sinks?sink=orders-in")
    page.wait_for_selector('[data-mode="live"]')
    page.wait_for_selector(".chart-wait", state="detached")
    expect(page.locator("[data-live=state] .notice").first).to_contain_text("partition 4")
    expect(page.locator("[data-figure=sequence-figure]")).to_contain_text("p4 missing")
    expect(page.locator("[data-live=participants] tbody tr").first).to_contain_text("missing")

    site.change("sink", table="orders", missing=-1)

    expect(page.locator("[data-figure=sequence-figure]")).not_to_contain_text("missing")
    expect(page.locator("[data-live=state] .status").first).to_have_text("running")
    assert seen.console == []


def test_dead_letters_are_read_when_somebody_asks(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/orders/sinks?sink=orders-in")

    page.get_by_role("link", name="Show records").first.click()

    expect(page.locator("#dead-letter-rows")).to_contain_text("ts: not a number")
    assert seen.console == []


def test_chosen_letters_are_confirmed_and_sent_again(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/orders/sinks?sink=returns")
    page.get_by_role("link", name="Show records").click()
    page.get_by_label("Select partition 0, offset 117").check()
    assert problems(page) == []
    site.change("sink", table="orders", missing=-1)
    expect(page.get_by_label("Select partition 0, offset 117")).to_be_checked()

    page.get_by_role("button", name="Replay selected").click()
    expect(page.locator("main")).to_contain_text("ts: not a number")
    expect(page.locator("main")).not_to_contain_text("not UTF-8")
    assert problems(page) == []
    page.get_by_label("Reason").fill("the producer is mended")
    page.get_by_role("button", name="Replay").click()

    expect(page.locator("h1")).to_have_text("Replay dead letters of returns")
    expect(page.locator("main")).to_contain_text("0 of 1 letters")
    assert problems(page) == []
    assert seen.console == []


def test_sink_is_started_stopped_and_refused_in_words(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/orders/sinks")
    page.get_by_role("link", name="Start a sink").click()
    page.get_by_label("Topic", exact=True).fill("clicks")
    page.get_by_label("More options").fill("hoodie.kafka.topik=x")
    page.get_by_role("button", name="Start sink").click()
    expect(page.get_by_role("alert")).to_contain_text("hoodie.kafka.topik")

    page.get_by_label("More options").fill("")
    page.get_by_role("button", name="Start sink").click()
    expect(page.locator("#sink-title")).to_have_text("clicks")
    expect(page.locator("[data-live=state] .status").first).to_have_text("starting")

    page.locator("[data-live=state]").get_by_role("link", name="Stop").click()
    page.get_by_label("Reason").fill("wrong table")
    page.get_by_role("button", name="Stop immediately").click()
    expect(page.locator("[data-live=state] .status").first).to_have_text("cancelling")
    assert [one for one in seen.console if "400" not in one] == []


def test_open_page_says_silent_when_nothing_is_said_and_nothing_changes(
    page: Page, site: Site, seen: Seen
) -> None:
    """The list asked every fifteen seconds, and then said *running* of a word 26 seconds old."""
    site.change("sink", table="orders", missing=-1, said_ms_ago=6_000)
    page.goto(f"{site.url}/t/orders/sinks?sink=orders-in")
    page.wait_for_selector('[data-mode="live"]')
    shown = page.locator("[data-live=state] .status").first
    listed = page.locator('[data-live=list] li[data-key="orders-in"] .status')
    expect(shown).to_have_text("running")
    expect(listed).to_have_text("running")
    due = int(page.locator("[data-live=list] [data-due]").first.get_attribute("data-due") or 0)

    # In time, and not with the next regular question of the list, which comes six seconds later.
    expect(listed).to_have_text("silent", timeout=20_000)
    assert page.evaluate("Date.now()") - due < 5_500
    expect(shown).to_have_text("silent", timeout=10_000)
    assert seen.console == []
