"""Uploads: a file is chosen or dropped, previewed, and one that is too large is not sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site

pytestmark = pytest.mark.browser

DROP = """() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(["id,note\\n1,hi\\n"], "dropped å.csv"));
  const form = document.querySelector("[data-upload]");
  for (const type of ["dragover", "drop"])
    form.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, cancelable: true }));
}"""


def test_a_file_is_chosen_and_previewed(page: Page, site: Site, seen: Seen, tmp_path: Path) -> None:
    file = tmp_path / "0 trips.csv"
    file.write_text("id,note\n1,hi\n2,yo\n")

    page.goto(f"{site.url}/t/fares/write")
    page.set_input_files("#id_upload", file)
    page.get_by_role("button", name="Upload").click()

    expect(page.locator("#id_path")).to_have_value(re.compile("^upload:"))
    expect(page.locator("main")).to_contain_text("0 trips.csv")
    expect(page.locator("main")).to_contain_text("Read 2 rows")
    assert (seen.console, seen.failed) == ([], [])


def test_a_dropped_file_suggests_a_table(page: Page, site: Site, seen: Seen) -> None:
    page.goto(f"{site.url}/tables/create")
    page.evaluate(DROP)

    expect(page.locator("main")).to_contain_text("dropped å.csv")
    expect(page.locator("#id_columns")).to_have_value("id bigint\nnote string")
    assert (seen.console, seen.failed) == ([], [])


def test_a_file_above_the_limit_is_not_sent(
    page: Page, site: Site, seen: Seen, tmp_path: Path
) -> None:
    file = tmp_path / "large.csv"
    file.write_text("id\n1\n")

    page.goto(f"{site.url}/t/fares/write")
    page.evaluate("document.querySelector('[data-upload]').dataset.bytesMax = '3'")
    page.set_input_files("#id_upload", file)
    page.get_by_role("button", name="Upload").click()

    expect(page.locator("#upload-problem")).to_contain_text("larger than the limit")
    assert page.url.endswith("/t/fares/write")
    assert (seen.console, seen.failed) == ([], [])
