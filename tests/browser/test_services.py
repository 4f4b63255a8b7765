"""The wizard of a table service and of a restore, from the plan to the proof. The worker's part is
its own task: it reads the job that was queued and reports over the API of the served site.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser


def asked_for(page: Page) -> str:
    """The operation that the confirmed plan became."""
    page.wait_for_url("**/operations/*")
    return page.url.rsplit("/", 1)[1]


def proved(page: Page, checks: int = 2) -> None:
    """Storage and mirror bear out every check, however the worker called its end."""
    expect(page.locator(".checks li")).to_have_count(checks)
    expect(page.locator(".checks .tone-good")).to_have_count(checks)


def test_pending_compaction_is_carried_out_and_proved(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/fares/services")
    page.get_by_role("link", name="Show pending plan").click()
    expect(page.locator("h1")).to_contain_text("pending")
    page.fill("#id_reason", "reads are slow")
    page.get_by_role("button", name="Compact").click()

    operation = asked_for(page)
    expect(page.locator(".checks")).to_contain_text("waiting")
    assert site.change("work", table="fares", pk=operation) == "succeeded"

    proved(page)
    expect(page.locator(".checks")).to_contain_text("is completed")
    page.goto(f"{site.url}/t/fares/services")
    expect(page.get_by_text("No pending plans")).to_be_visible()
    assert seen.console == []


def test_clean_names_its_files_and_they_are_gone_afterwards(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/fares/services/run/clean")
    page.get_by_label("Commits kept").fill("1")
    page.get_by_role("button", name="Show plan").click()
    expect(page.locator("#group-delete")).to_be_visible()
    page.locator("button[type=submit].primary").last.click()

    operation = asked_for(page)
    assert site.change("work", table="fares", pk=operation) == "succeeded"

    proved(page)
    assert seen.console == []


def test_repair_shows_its_evidence_and_what_was_left_behind_is_gone_afterwards(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/fares/services")
    page.get_by_role("link", name="Repair").click()
    expect(page.locator("#group-delete")).to_contain_text("2")
    expect(page.get_by_text("neither on the timeline nor in its history")).to_be_visible()
    expect(page.get_by_text("and no writer lives")).to_be_visible()
    page.fill("#id_typed_name", "fares")
    page.fill("#id_reason", "the machine lost power")
    page.locator("button.danger").click()

    operation = asked_for(page)
    assert site.change("work", table="fares", pk=operation) == "succeeded"

    proved(page, checks=3)  # The third: what others read still stands.
    expect(page.locator(".checks")).to_contain_text("3")
    page.goto(f"{site.url}/t/fares/services/run/repair")
    expect(page.get_by_text("Nothing to do")).to_be_visible()
    assert seen.console == []


def test_restore_wants_the_name_and_a_reason_then_undoes_what_came_later(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/t/fares/savepoints")
    page.get_by_role("link", name="Plan a restore").first.click()
    expect(page.locator("#group-undo")).to_be_visible()
    page.locator("button.danger").click()
    expect(page.locator("#typed-problem")).to_contain_text("Enter the table name")
    page.fill("#id_typed_name", "fares")
    page.fill("#id_reason", "the backfill doubled the fares")
    page.locator("button.danger").click()

    operation = asked_for(page)
    assert site.change("work", table="fares", pk=operation) == "succeeded"

    proved(page)
    page.goto(f"{site.url}/t/fares/timeline?action=restore")
    expect(page.locator(".instants tbody tr")).to_have_count(1)


def test_schedule_is_kept_and_shown(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/t/fares/services/settings/compaction")
    page.get_by_label("Run automatically").check()
    page.get_by_label("At most every").fill("30")
    page.get_by_label("Minimum number of new commits").fill("5")
    page.get_by_role("button", name="Save schedule").click()

    expect(page.locator("[data-key=compaction]")).to_contain_text("every 30 min after 5 commits")
