"""Live patches leave alone what a person entered, chose, opened, focused or selected."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.test_pages import PAGES

pytestmark = pytest.mark.browser

PARTS = {
    "home": ("/", "hours"),
    "tables": ("/tables/", "tables"),
    "writers": ("/t/contested/writers", "writers"),
    "conflict": ("/t/contested/conflicts/{schema}", "conflict"),
    "choices": ("/t/trips/rollback", "choices"),
    "services": ("/t/fares/services", "history"),
    "sink": ("/t/orders/sinks?sink=orders-in", "state"),
    "trace": ("/t/orders/sinks?sink=orders-in", "trace"),
    "operation": ("/t/ad-requests/operations/{operation}", "operation"),
}
"""Each live part that has a control or a fold: its page and its name."""
SHOWN = """part => {
  const controls = [...part.querySelectorAll('input:not([type=hidden]), select, textarea')];
  return [
    controls.map((one) => [one.name, one.type, one.value, one.checked]),
    [...part.querySelectorAll('details')].map((one) => one.open),
    controls.indexOf(document.activeElement),
    controls.map((one) => one.type === 'text' ? one.selectionStart : null),
  ];
}"""
ENTER = """part => {
  for (const fold of part.querySelectorAll('details')) fold.open = !fold.open;
  let texts = 0;
  for (const control of part.querySelectorAll('input:not([type=hidden]), select, textarea')) {
    if (control.type === 'checkbox') control.checked = !control.checked;
    else if (control.nodeName === 'SELECT') control.selectedIndex = control.options.length - 1;
    else control.value = `typed ${texts += 1}`;
    if (control.type !== 'text') continue;
    control.focus();
    control.setSelectionRange(2, 2);
  }
}"""
PATCH = """part => new Promise((patched) => {
  const name = part.dataset.live;
  document.addEventListener('sluice:patched', function heard(event) {
    if (event.detail !== name) return;
    document.removeEventListener('sluice:patched', heard);
    patched();
  });
  part.dispatchEvent(new CustomEvent('sluice:look'));
})"""


def open_live(page: Page, site: Site, path: str) -> None:
    page.goto(site.url + path)
    page.wait_for_selector('[data-mode="live"]', state="attached")
    page.wait_for_function("() => !document.querySelector('[data-live][aria-busy]')")
    page.mouse.move(2, 2)


@pytest.mark.parametrize("part", PARTS)
def test_patch_keeps_what_was_entered(page: Page, site: Site, part: str) -> None:
    path, name = PARTS[part]
    places = dict(site.instants)
    if "{operation}" in path:
        places["operation"] = site.change("ended_write")
    open_live(page, site, path.format(**places))
    live = page.locator(f'[data-live="{name}"]')
    untouched = live.evaluate(SHOWN)
    assert untouched[0] or untouched[1], "nothing to enter or to open here"

    live.evaluate(ENTER)
    entered = live.evaluate(SHOWN)
    for _ in range(2):
        live.evaluate(PATCH)

    assert entered != untouched
    assert live.evaluate(SHOWN) == entered


def test_first_patch_of_a_page_keeps_its_elements(page: Page, site: Site) -> None:
    open_live(page, site, "/t/trips/rollback")
    live = page.locator('[data-live="choices"]')
    live.evaluate("part => { window.boxes = [...part.querySelectorAll('input')]; }")

    live.evaluate(PATCH)

    assert live.evaluate(
        "part => [...part.querySelectorAll('input')].every((box, at) => box === window.boxes[at])"
    )


def test_tick_stays_at_its_row_when_rows_come_above(page: Page, site: Site) -> None:
    open_live(page, site, "/t/ad-requests/rollback")
    box = page.locator(".choices input[type=checkbox]").first
    value = box.get_attribute("value")
    box.check()
    box.evaluate("box => box.blur()")
    page.mouse.move(2, 2)

    instant = site.change("writer", name="above")

    expect(page.locator(f'.choices input[value="{instant}"]')).not_to_be_checked()
    expect(page.locator(f'.choices input[value="{value}"]')).to_be_checked()
    assert page.locator(".choices input:checked").count() == 1


def test_ticked_row_that_is_gone_stays_until_the_tick_is_taken_off(page: Page, site: Site) -> None:
    instant = site.change("writer", name="leaving")
    open_live(page, site, "/t/ad-requests/rollback")
    row = page.locator(f'.choices tr[data-key^="{instant}"]')
    row.get_by_role("checkbox").check()
    row.get_by_role("checkbox").evaluate("box => box.blur()")
    page.mouse.move(2, 2)

    site.change("remove_instant", instant=instant)
    page.locator('[data-live="choices"]').evaluate(PATCH)

    expect(row).to_have_class("is-gone")
    expect(row.get_by_role("checkbox")).to_be_checked()
    row.get_by_role("checkbox").uncheck()
    row.get_by_role("checkbox").evaluate("box => box.blur()")
    page.evaluate("scrollTo(0, 0)")  # Rows stay where they are while somebody reads below the top.
    page.mouse.move(2, 2)
    page.locator('[data-live="choices"]').evaluate(PATCH)
    expect(row).to_have_count(0)


def test_selected_text_stays_selected_and_the_patch_comes_afterwards(
    page: Page, site: Site
) -> None:
    open_live(page, site, "/t/ad-requests/rollback")
    code = page.locator(".choices code").first
    code.evaluate("code => document.getSelection().selectAllChildren(code)")
    selected = page.evaluate("document.getSelection().toString()")

    instant = site.change("writer", name="meanwhile")
    page.wait_for_timeout(1_500)

    assert page.evaluate("document.getSelection().toString()") == selected
    assert page.locator(f'.choices input[value="{instant}"]').count() == 0
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(page.locator(f'.choices input[value="{instant}"]')).to_have_count(1)


@pytest.mark.parametrize("name", PAGES)
def test_no_part_of_a_page_touches_what_was_entered_anywhere_on_it(
    page: Page, site: Site, name: str
) -> None:
    page.goto(site.url + PAGES[name].format(**site.instants))
    page.wait_for_load_state("load")
    parts = page.locator("[data-live]")
    if not parts.count():
        return
    page.wait_for_function("() => !document.querySelector('[data-live][aria-busy]')")
    page.mouse.move(2, 2)
    main = page.locator("main")
    main.evaluate(ENTER)
    page.evaluate("scrollTo(0, 150)")
    entered, scrolled = main.evaluate(SHOWN), page.evaluate("scrollY")

    for part in parts.all():
        part.evaluate(PATCH)

    assert main.evaluate(SHOWN) == entered
    assert page.evaluate("scrollY") == scrolled


@pytest.mark.parametrize("path", ["live", "streams", "rollback"])
def test_no_column_is_cut_off_on_a_wide_screen(page: Page, site: Site, path: str) -> None:
    page.goto(f"{site.url}/t/ad-requests/{path}")
    page.wait_for_load_state("load")

    cut = page.locator("main .scroll").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1)"
        ".map((one) => one.ariaLabel)"
    )

    assert cut == []
