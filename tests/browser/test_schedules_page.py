"""Schedules: made with the form, seen with their due times, paused."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser


def test_schedule_is_made_shown_and_paused(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/fares/schedules")
    page.get_by_role("link", name="New schedule").click()
    page.fill("#id_name", "nightly")
    page.select_option("#id_what", "clean")
    expect(page.locator("#id_parameters")).to_have_value("{}")
    page.select_option("#id_what", "write")
    expect(page.locator("#id_parameters")).to_have_value(re.compile('"source"'))
    page.select_option("#id_what", "clean")
    page.select_option("#id_trigger", "cron")
    page.fill("#id_cron", "30 2 * * 8")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.locator("main")).to_contain_text("Invalid cron expression")

    page.fill("#id_cron", "30 2 * * 1-5")
    page.fill("#id_time_zone", "Europe/Oslo")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.locator("main")).to_contain_text("It runs as you")
    expect(page.locator(".due-times li")).to_have_count(5)

    page.locator(".crumbs").get_by_role("link", name="Schedules").click()
    expect(page.locator("main")).to_contain_text("At 02:30 on Monday through Friday")
    page.get_by_role("button", name="Pause nightly").click()
    expect(page.locator("main")).to_contain_text("Schedule nightly paused.")
