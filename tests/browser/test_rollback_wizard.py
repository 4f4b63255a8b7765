"""The wizard from the choice to the proof, on a table that exists; the worker's part is told by the
test.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser


def test_rollback_from_choice_to_proof(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/trips/rollback")
    expect(page.get_by_text("possible: newest write")).to_have_count(1)
    page.get_by_role("link", name="Plan rollback").first.click()

    page.wait_for_selector("#id_typed_name")
    instant = page.url.rsplit("/", 1)[1]
    files = page.locator(".files tbody tr").count()
    page.fill("#id_typed_name", "trip")
    page.fill("#id_reason", "loaded the wrong day")
    page.locator("button.danger").click()
    expect(page.locator(".problem")).to_contain_text("not the table's name")
    expect(page.locator("#id_reason")).to_have_value("loaded the wrong day")

    page.fill("#id_typed_name", "trips")
    page.locator("button.danger").click()
    page.wait_for_url("**/operations/*")
    expect(page.locator(".run-words")).to_contain_text("waiting for a worker")
    expect(page.locator(".checks")).to_contain_text("waiting")

    operation = page.url.rsplit("/", 1)[1]
    site.change("operation", table="trips", pk=operation, state="running")
    expect(page.locator(".run-words")).to_contain_text(f"0 of {files} files", timeout=20_000)
    half = {"state": "running", "progress_done": 4, "progress_total": 8}
    site.change("operation", table="trips", pk=operation, **half)
    expect(page.locator(".run-words")).to_contain_text("4 of 8 files", timeout=20_000)
    assert page.locator("progress.run-bar").get_attribute("value") == "50"

    site.change("operation", table="trips", pk=operation, state="succeeded", progress_done=8)
    expect(page.locator(".checks")).to_contain_text("are left", timeout=20_000)
    site.change("roll_back", table="trips", instant=instant)
    expect(page.locator(".checks .tone-good")).to_have_count(3, timeout=20_000)
    assert seen.console == [
        "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    ]


def test_older_instant_names_what_has_to_go_first(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/t/trips/rollback")
    newest = page.locator("tr", has_text="newest write").locator("code").inner_text()
    page.locator("tr", has_text="newer one").first.get_by_text("Show plan").click()

    expect(page.locator(".notice.tone-bad").first).to_contain_text(newest)
    assert page.locator("button.danger").is_disabled()
    assert page.locator("#id_reason").is_disabled()


def test_ticked_instants_are_planned_together_in_their_order(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/t/trips/rollback")
    boxes = page.locator(".choices input[type=checkbox]")
    ticked = [str(boxes.nth(place).get_attribute("value")) for place in (0, 1)]
    boxes.nth(1).check()
    boxes.nth(0).check()
    page.get_by_role("button", name="Plan rollback of selected").click()

    page.wait_for_selector("#id_typed_name")
    steps = page.locator("#group-undo").locator("xpath=ancestor::section").locator("tbody tr")
    assert [one.split()[:2] for one in steps.all_inner_texts()] == [
        ["1.", ticked[0]],
        ["2.", ticked[1]],
    ]
    expect(page.locator("button.danger")).to_be_enabled()


def test_writers_are_paused_for_a_rollback_and_resumed_after_it(page: Page, site: Site) -> None:
    stream = site.change("running_stream", table="trips", stream="clicks")
    page.goto(f"{site.url}/t/trips/rollback")
    page.get_by_role("link", name="Plan rollback").first.click()
    page.fill("#id_typed_name", "trips")
    page.fill("#id_reason", "loaded the wrong day")
    site.change("commit", table="trips")
    page.locator("button.danger").click()
    expect(page.locator(".notice.tone-bad").first).to_contain_text("The table changed after")
    expect(page.locator("#id_reason")).to_have_value("loaded the wrong day")
    expect(page.locator(".pause")).to_contain_text(
        "1 running writer may commit at any time: clicks"
    )

    page.get_by_role("button", name="Pause writers").click()
    expect(page.locator(".pause")).to_contain_text("Still stopping: clicks")
    expect(page.get_by_role("button", name="Resume writers")).to_be_disabled()
    site.change("operation", table="trips", pk=stream, state="cancelled")
    page.goto(f"{site.url}/t/trips/rollback")
    page.get_by_role("link", name="Plan rollback").first.click()
    page.wait_for_selector("#id_typed_name")
    instant = page.url.rsplit("/", 1)[1]
    page.fill("#id_typed_name", "trips")
    page.fill("#id_reason", "loaded the wrong day")
    page.locator("button.danger").click()
    page.wait_for_url("**/operations/*")
    site.change("roll_back", table="trips", instant=instant)
    operation = page.url.rsplit("/", 1)[1]
    site.change("operation", table="trips", pk=operation, state="succeeded")
    expect(page.locator(".checks .tone-good")).to_have_count(3, timeout=20_000)

    page.get_by_role("button", name="Resume writers").click()
    expect(page.locator(".notice.tone-good").first).to_contain_text("Writers are restarting")
    expect(page.get_by_role("button", name="Resume writers")).to_have_count(0)
