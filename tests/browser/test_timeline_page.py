"""The timeline: bars, one instant beside them, and an address that says all of it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser
DRAWN = (
    "instant => document.querySelector('[data-chart]').data"
    ".some(trace => trace.customdata.some(row => row[0] === instant))"
)


@pytest.fixture
def timeline(page: Page, site: Site) -> Page:
    page.goto(f"{site.url}/t/ad-requests/timeline")
    page.wait_for_selector(".js-plotly-plot .bars path", state="attached", timeout=40_000)
    return page


def test_times_are_utc_wherever_the_browser_is(timeline: Page) -> None:
    # The context is in Tokyo; the axis must agree with the table beside it.
    requested = timeline.locator(".instants time").first.get_attribute("datetime")
    assert requested is not None

    ticks = timeline.locator(".xtick text").all_text_contents()

    hours = {tick[:2] for tick in ticks if re.match(r"\d\d:", tick)}
    assert requested[11:13] in hours


def test_bar_opens_its_instant_and_back_closes_it(timeline: Page, seen: Seen) -> None:
    bar = timeline.locator(".js-plotly-plot .bars path").nth(4)
    box = bar.bounding_box()
    assert box is not None
    timeline.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    timeline.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    side = timeline.locator("[data-side]")
    expect(side.locator(".facts").first).to_be_visible()
    shown = side.locator(".instant-id code").inner_text()
    assert f"sel={shown}" in timeline.url

    timeline.go_back()
    expect(side).to_be_hidden()
    assert "sel=" not in timeline.url
    assert seen.console == []


def test_link_to_an_instant_shows_it_at_once(timeline: Page, site: Site) -> None:
    instant = timeline.locator(".instants a").nth(7).inner_text()

    timeline.goto(f"{site.url}/t/ad-requests/timeline?by=writer&sel={instant}")

    expect(timeline.locator("[data-side] .instant-id code")).to_have_text(instant)
    expect(timeline.locator("tr.is-selected")).to_contain_text(instant)


def test_brackets_walk_through_the_instants(timeline: Page) -> None:
    timeline.locator(".instants a").nth(7).click()
    first = timeline.locator("[data-side] .instant-id code").inner_text()

    timeline.locator("h1").click()
    timeline.keyboard.press("[")

    expect(timeline.locator("[data-side] .instant-id code")).not_to_have_text(first)
    assert timeline.locator("[data-side] .instant-id code").inner_text() < first
    timeline.keyboard.press("Escape")
    expect(timeline.locator("[data-side]")).to_be_hidden()


def test_zoom_goes_into_the_address_and_the_table_follows(timeline: Page) -> None:
    whole = timeline.locator("[data-summary]").inner_text()
    plot = timeline.locator(".js-plotly-plot .nsewdrag").bounding_box()
    assert plot is not None
    timeline.mouse.move(plot["x"] + plot["width"] * 0.2, plot["y"] + 20)
    timeline.mouse.down()
    timeline.mouse.move(plot["x"] + plot["width"] * 0.4, plot["y"] + 20, steps=5)
    timeline.mouse.up()

    timeline.wait_for_url(re.compile(r"from=\d{17}&to=\d{17}"))
    expect(timeline.locator("[data-summary]")).not_to_have_text(whole)

    timeline.reload()
    expect(timeline.locator("[data-summary]")).not_to_have_text(whole)
    timeline.wait_for_selector(".js-plotly-plot .bars path", state="attached", timeout=40_000)
    zoomed = timeline.locator(".xtick text").all_text_contents()

    timeline.mouse.dblclick(plot["x"] + plot["width"] / 2, plot["y"] + 20)

    expect(timeline.locator("[data-summary]")).to_have_text(whole, timeout=20_000)
    assert "from=" not in timeline.url
    timeline.wait_for_function(
        "before => [...document.querySelectorAll('.xtick text')].map(it => it.textContent)"
        ".join() !== before",
        arg=",".join(zoomed),
    )


def test_new_commit_is_drawn_into_a_window_that_follows_the_clock(
    timeline: Page, site: Site
) -> None:
    instant = site.change("commits", count=1)

    expect(timeline.locator(f'[data-key="{instant}.deltacommit"]')).to_be_attached(timeout=20_000)
    timeline.wait_for_function(DRAWN, arg=instant, timeout=20_000)


def test_commit_that_came_before_the_page_listened_is_drawn_too(page: Page, site: Site) -> None:
    came: list[str] = []

    def late(route: Route) -> None:
        came.append(site.change("commits", count=1))
        route.continue_()

    page.route("**/events/ad-requests", late)
    page.goto(f"{site.url}/t/ad-requests/timeline")
    page.wait_for_selector(".js-plotly-plot .bars path", state="attached", timeout=40_000)

    expect(page.locator(f'[data-key="{came[0]}.deltacommit"]')).to_be_attached()
    page.wait_for_function(DRAWN, arg=came[0], timeout=20_000)


def test_crowded_window_becomes_a_heatmap_without_a_complaint(
    page: Page, site: Site, seen: Seen
) -> None:
    site.change("commits", count=3_100, table="empty", every_ms=400)

    page.goto(f"{site.url}/t/empty/timeline?range=1h")

    page.wait_for_selector(".js-plotly-plot .heatmaplayer image", state="attached", timeout=40_000)
    expect(page.locator("[data-summary]")).to_contain_text("zoom in")
    assert seen.console == []


def test_arrows_move_the_window_and_an_overlay_is_drawn_over_it(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/fares/timeline?retained=on")
    page.wait_for_selector(".js-plotly-plot .bars path", state="attached", timeout=40_000)
    expect(page.locator(".js-plotly-plot .shapelayer path[fill-rule]").first).to_be_attached()
    expect(page.locator(".js-plotly-plot")).to_contain_text("retained by cleaning")

    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile(r"from=\d{17}&to=\d{17}"))
    earlier = page.url
    page.keyboard.press("ArrowRight")

    page.wait_for_url(lambda url: url != earlier)
    assert "retained=on" in page.url
    assert seen.console == []


def test_keyboard_leads_everywhere(timeline: Page, site: Site) -> None:
    timeline.keyboard.press("g")
    timeline.keyboard.press("l")
    timeline.wait_for_url("**/t/ad-requests/live")

    timeline.keyboard.press("/")
    timeline.keyboard.type("trips")
    timeline.keyboard.press("Enter")
    timeline.wait_for_url("**/t/trips/live")

    timeline.keyboard.press("?")
    expect(timeline.locator("#help")).to_be_visible()
    timeline.keyboard.press("Escape")
    timeline.keyboard.press("g")
    timeline.keyboard.press("a")
    timeline.wait_for_url(f"{site.url}/tables/")


def test_lost_write_ends_in_a_sign_that_leads_to_its_conflict(
    page: Page, site: Site, seen: Seen
) -> None:
    page.goto(f"{site.url}/t/contested/timeline")
    page.wait_for_selector(".js-plotly-plot .scatterlayer path.point", timeout=40_000)
    signs = page.evaluate(
        "() => document.querySelector('[data-chart]').data"
        ".filter(trace => trace.type === 'scatter')"
        ".map(trace => [trace.meta.state, trace.marker.symbol])"
    )
    assert ["conflicted", "x"] in signs

    sign = page.locator(".js-plotly-plot .scatterlayer path.point").first.bounding_box()
    assert sign is not None
    page.mouse.move(sign["x"] + sign["width"] / 2, sign["y"] + sign["height"] / 2)
    page.mouse.click(sign["x"] + sign["width"] / 2, sign["y"] + sign["height"] / 2)
    page.locator("[data-side]").get_by_role(
        "link", name="Compare both writers and see what to do"
    ).click()

    expect(page).to_have_url(re.compile(r"/t/contested/conflicts/\d{17}$"))
    assert seen.console == []
