"""Every page in both themes and all densities, wide and narrow: no complaint, no violation of the
policy, nothing axe calls serious.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Seen, Site, signed_in

pytestmark = pytest.mark.browser

PAGES = {
    "home": "/",
    "tables": "/tables/",
    "operations": "/operations",
    "tables-none": "/tables/?show=archiving",
    "operations-none": "/operations?who=nobody",
    "alerts": "/alerts",
    "channels": "/alerts/channels",
    "live": "/t/ad-requests/live",
    "live-wall": "/t/ad-requests/live?wall=3600",
    "writers": "/t/contested/writers",
    "writers-busy": "/t/ad-requests/writers",
    "locks": "/t/contested/locks",
    "markers": "/t/ad-requests/markers",
    "conflicts": "/t/contested/conflicts",
    "conflict-write": "/t/contested/conflicts/{write}",
    "conflict-schema": "/t/contested/conflicts/{schema}",
    "timeline": "/t/ad-requests/timeline",
    "rollback": "/t/trips/rollback",
    "overview": "/t/fares/",
    "overview-lost": "/t/weather/",
    "files": "/t/fares/files",
    "services": "/t/fares/services",
    "streams": "/t/ad-join/streams",
    "streams-why": "/t/ad-join/streams?key=r00-02&column=clicks",
    "streams-partial": "/t/ad-requests/streams",
    "sinks": "/t/orders/sinks?sink=orders-in",
    "sink-lost": "/t/orders/sinks?sink=returns",
    "sinks-none": "/t/fares/sinks",
    "savepoints": "/t/fares/savepoints",
    "empty-live": "/t/empty/live",
    "empty-timeline": "/t/empty/timeline",
    "broken-live": "/t/weather/live",
}
STILL = {
    "access": "/access",
    "preferences": "/preferences",
    "node-settings": "/settings",
    "people": "/people",
    "person": "/people/1",
    "group": "/people/groups/100",
    "tokens": "/tokens",
    "write": "/t/trips/write",
    "write-sql": "/t/trips/write?kind=sql",
    "write-kafka": "/t/trips/write?kind=kafka",
    "data": "/t/trips/data/rows",
    "data-row": "/t/trips/data/row/versions?key=1",
    "data-row-none": "/t/trips/data/row/versions?key=r-1",
    "data-compare": "/t/trips/data/compare/rows",
    "data-plan": "/t/trips/data/plan/part?where=city+%3D+%27Oslo%27",
    "data-sorted": "/t/trips/data/rows?order_by=-id&limit=20",
    "trends": "/t/trips/trends",
    "all-schedules": "/schedules",
    "sql": "/sql?statement=SELECT%201",
    "audit": "/audit",
    "audit-none": "/audit?who=nobody",
    "audit-row": "/audit/1",
    "alert-rules": "/alerts/rules",
    "alert-silence": "/alerts/1/silence",
    "channel": "/alerts/channels/1",
    "connections": "/connections",
    "connection": "/connections/orders-cluster",
    "connection-new": "/connections/new/?kind=s3",
    "approval": "/approvals/{awaiting}",
    "approvals": "/approvals",
    "approval-rules": "/approvals/rules",
    "table-approval-rules": "/t/fares/approvals",
    "thresholds": "/alerts/thresholds",
    "table-thresholds": "/t/fares/thresholds",
    "channel-new": "/alerts/channels/new",
    "schema": "/t/fares/schema",
    "service-plan": "/t/fares/services/run/clean?hoodie.clean.commits.retained=1",
    "savepoint-plan": "/t/fares/services/run/savepoint",
    "schedule": "/t/fares/services/settings/clustering",
    "marker-tree": "/t/contested/markers/{doomed}",
    "end-a-writer": "/t/contested/writers/{older}/abort",
    "settings": "/t/fares/settings",
    "unregister": "/t/ad-requests/settings/unregister",
    "register": "/tables/register",
    "create": "/tables/create",
    "stream-declare": "/t/ad-join/streams/declare",
    "sink-start": "/t/orders/sinks/start",
    "sink-stop": "/t/orders/sinks/orders-in/stop",
    "sink-relaunch": "/t/orders/sinks/returns/relaunch",
    "sink-reset": "/t/orders/sinks/returns/reset",
    "empty-files": "/t/empty/files",
    "empty-schema": "/t/empty/schema",
}
"""Pages that do not follow the live stream."""
THEMES = ("light", "dark")
DENSITIES = ("standard", "comfortable", "compact")
BETWEEN = (768, 320)
BETWEEN_DRAWN = 12
"""Pages that are looked at between and below the two widths at which all are."""
SEED = os.environ["SLUICE_TEST_SEED"]
CHART_MS_MAX = 15_000


def visit(page: Page, site: Site, path: str) -> None:
    site.change("beats")
    page.goto(site.url + path.format(**site.instants))
    if path not in STILL.values():
        page.wait_for_selector('[data-mode="live"]', state="attached")
    if page.locator("[data-figure]").count():
        page.wait_for_selector(".chart-wait", state="detached", timeout=CHART_MS_MAX)
    if "timeline" in path:
        page.wait_for_selector(
            ".js-plotly-plot .xaxislayer-above", state="attached", timeout=CHART_MS_MAX
        )


def drawn(theme: str, width: int) -> dict[str, str]:
    """Of each page at this width the seed draws one theme; of the widths between, few pages."""
    every = {**PAGES, **STILL}
    if width in BETWEEN:
        names = random.Random(f"{SEED} {theme} {width}").sample(sorted(every), BETWEEN_DRAWN // 4)
        return {name: every[name] for name in names}
    return {
        name: path
        for name, path in every.items()
        if random.Random(f"{SEED} {name} {width}").choice(THEMES) == theme
    }


def choose(page: Page, site: Site, **choices: str) -> None:
    """What a person's browser remembers of how pages look."""
    page.context.add_cookies(
        [
            {"name": f"sluice_{name}", "value": choice, "url": site.url}
            for name, choice in choices.items()
        ]
    )


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["drawn", "every page"]
)
@pytest.mark.parametrize("width", [1440, 390, *BETWEEN])
@pytest.mark.parametrize("theme", THEMES)
def test_page_is_clean_accessible_and_never_wider_than_the_screen(
    theme: str, width: int, every: bool, page: Page, site: Site, seen: Seen, tmp_path: Path
) -> None:
    paths = {**PAGES, **STILL} if every else drawn(theme, width)
    page.set_viewport_size({"width": width, "height": 900})

    faults: list[str] = []
    for name, path in paths.items():
        density = random.Random(f"{SEED} {name} {width} {theme}").choice(DENSITIES)
        choose(page, site, theme=theme, density=density)
        visit(page, site, path)
        of_page = [f"{name}: {problem}" for problem in problems(page)]
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            of_page.append(f"{name}: {wide} pixels wide")
        if of_page:
            page.screenshot(path=tmp_path / f"{name}-{theme}-{width}.png", full_page=True)
        faults += of_page

    assert not faults, "\n".join(faults)
    assert seen.console == []
    assert seen.failed == []


def problems(page: Page) -> list[str]:
    violations = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def test_wizard_and_operation_are_accessible(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/t/trips/rollback")
    page.get_by_role("link", name="Plan rollback").first.click()
    page.wait_for_selector("#id_reason")
    assert problems(page) == []

    page.goto(f"{site.url}/t/ad-requests/live")
    page.locator(".operations .name").nth(3).click()
    page.wait_for_selector(".run-bar")
    assert problems(page) == []
    assert seen.console == []


def test_login_is_accessible_and_says_what_went_wrong(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    page.goto(f"{site.url}/t/ad-requests/live")
    page.fill("#id_username", "ada")
    page.fill("#id_password", "wrong")
    page.get_by_role("button", name="Sign in").click()

    assert page.get_by_role("alert").inner_text().startswith("Not signed in.")
    assert problems(page) == []


def test_viewer_sees_the_buttons_of_an_admin_and_why_they_do_nothing(
    context: BrowserContext, site: Site, seen: Seen
) -> None:
    page = signed_in(context, site, seen, "vera")
    page.goto(f"{site.url}/t/ad-requests/live")

    assert page.get_by_role("button", name="Kill a writer").is_disabled()
    assert page.get_by_text("requires the admin role (yours: viewer)").is_visible()


def test_pages_work_without_scripts(browser: object, site: Site, seen: Seen) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = signed_in(context, site, seen, "vera")
    page.goto(f"{site.url}/t/ad-requests/timeline?by=writer")

    page.locator(".instants a").nth(6).click()

    # A click waits until the next page begins, not until it is there.
    expect(page.locator("[data-side] .facts").first).to_be_visible()
    expect(page.get_by_role("button", name="Apply")).to_be_visible()
    assert "sel=" in page.url
    context.close()


def test_chromium_is_the_distributions_own() -> None:
    assert (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
