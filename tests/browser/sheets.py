"""Contact sheets: each page by state, width, theme and density, on one picture, to be looked at.

    .venv/bin/python -m tests.browser.sheets [--only live,conflict] [--widths 1440,390] [--out DIR]

Serves the site of the browser tests and writes `var/sheets/<page>.png`, which git ignores. States
of one page stand below each other: `empty-live` and `broken-live` are states of `live`.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

os.environ.setdefault("SLUICE_TEST_SEED", "sheets")  # What tests draw by; nothing is drawn here.

from tests.browser.conftest import CHROMIUM_ARGS, Seen, chromium, signed_in
from tests.browser.serving import ROOT, Site, served
from tests.browser.test_pages import PAGES, STILL, THEMES, visit

WIDTHS = (1440, 768, 390, 320)
HEIGHT = 900
HEIGHT_MAX = 3_000
"""A longer page is cut here: a sheet shows how it looks, not all that it says."""
SHOWN_SHARE = 0.42


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture of one state."""

    state: str
    caption: str
    width: int
    png: bytes


def pages_of(only: Iterable[str]) -> dict[str, dict[str, str]]:
    """The addresses of each page's states, by page and state."""
    every = {**PAGES, **STILL}
    grouped: dict[str, dict[str, str]] = {}
    for state, path in every.items():
        page = state.removeprefix("empty-").removeprefix("broken-")
        base = next((name for name in every if page.startswith(f"{name}-")), page)
        grouped.setdefault(base, {})[state] = path
    wanted = set(only)
    return {name: states for name, states in grouped.items() if not wanted or name in wanted}


def shots(
    page: Page, site: Site, states: dict[str, str], widths: Iterable[int], density: str
) -> Iterator[Shot]:
    """Each state at each width in both themes."""
    for (state, path), width, theme in product(states.items(), widths, THEMES):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        for name, chosen in (("theme", theme), ("density", density)):
            page.context.add_cookies([{"name": f"sluice_{name}", "value": chosen, "url": site.url}])
        visit(page, site, path)
        long = int(page.evaluate("document.documentElement.scrollHeight"))
        clip = {"x": 0, "y": 0, "width": width, "height": min(max(long, HEIGHT), HEIGHT_MAX)}
        png = page.screenshot(full_page=True, clip=clip)  # type: ignore[arg-type]
        yield Shot(state, f"{state} · {width} px · {theme}", width, png)


def sheet(browser: Browser, taken: list[Shot], to: Path) -> None:
    """Puts the pictures of one page beside each other, a line for each state."""
    lines = []
    for state in dict.fromkeys(shot.state for shot in taken):
        figures = "".join(_figure(shot) for shot in taken if shot.state == state)
        lines.append(f"<section>{figures}</section>")
    page = browser.new_page(viewport={"width": 2400, "height": HEIGHT})
    page.set_content(f"<style>{_STYLE}</style>{''.join(lines)}")
    page.screenshot(path=to, full_page=True)
    page.close()


_STYLE = """
body { margin: 16px; font: 14px sans-serif; background: #777; color: #fff; }
section { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; margin-bottom: 24px; }
figure { margin: 0; } figcaption { margin-bottom: 4px; } img { display: block; }
"""


def _figure(shot: Shot) -> str:
    source = f"data:image/png;base64,{base64.b64encode(shot.png).decode()}"
    wide = round(shot.width * SHOWN_SHARE)
    caption = f"<figcaption>{shot.caption}</figcaption>"
    return f'<figure>{caption}<img src="{source}" width="{wide}" alt=""></figure>'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="pages by name, with commas between them")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--density", default="standard")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "sheets")
    chosen = parser.parse_args()
    widths = [int(width) for width in chosen.widths.split(",")]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, served(Path(home)) as site, sync_playwright() as it:
        browser = it.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        page = signed_in(browser.new_context(), site, Seen(), "ada")
        for name, states in pages_of(filter(None, chosen.only.split(","))).items():
            to = chosen.out / f"{name}.png"
            sheet(browser, list(shots(page, site, states, widths, chosen.density)), to)
            sys.stdout.write(f"{to}\n")
        browser.close()


if __name__ == "__main__":
    main()
