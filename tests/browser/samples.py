"""The small pictures of docs/design.md, drawn with the style sheets as they are.

.venv/bin/python -m tests.browser.samples          writes docs/design/*.png
"""

from __future__ import annotations

from typing import Final

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM_ARGS, chromium
from tests.browser.serving import ROOT

STATIC = ROOT / "web/static/web"
PICTURES = ROOT / "docs/design"
_WIDE, _NARROW = 300, 260
_ROWS: Final = """
<div class="panel"><div class="scroll"><table data-cards><thead><tr><th>Writer</th><th>State</th>
<th>Last heartbeat</th><th>Instant</th></tr></thead><tbody><tr><th scope="row">nightly-backfill</th>
<td data-label="State"><span class="status tone-warn"><svg class="icon"><use href="#suspect"/></svg>
suspect</span></td><td data-label="Last heartbeat">7 s ago</td>
<td data-label="Instant" class="mono">20261125224409123</td></tr></tbody></table></div></div>"""
SAMPLES: Final = {
    "do-state": (
        '<span class="status tone-bad"><svg class="icon"><use href="#conflict"/></svg> conflicted'
        "</span>"
    ),
    "dont-state": '<span class="status tone-bad"><svg class="icon"><use href="#completed"/></svg>'
    "</span>",
    "do-empty": (
        '<section class="panel"><div class="panel-head"><h2>Conflicts</h2></div><div class="empty">'
        "<strong>No conflicts</strong> <p>Two writers of the same file groups are named here.</p>"
        "</div></section>"
    ),
    "dont-empty": (
        '<section class="panel"><div class="panel-head"><h2>Conflicts</h2></div>'
        '<div class="panel-body"><br><br><p class="empty">No data</p><br><br></div></section>'
    ),
    "do-card": _ROWS,
    "dont-card": _ROWS.replace(" data-cards", ""),
}


def main() -> None:
    sheets = "".join((STATIC / "css" / name).read_text() for name in ("tokens.css", "base.css"))
    icons = (STATIC / "icons.svg").read_text().replace("<svg ", "<svg hidden ", 1)
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        page = browser.new_page(viewport={"width": _WIDE, "height": 200})
        for name, markup in SAMPLES.items():
            width = _NARROW if "card" in name else _WIDE
            page.set_viewport_size({"width": width, "height": 200})
            frame = f"<!DOCTYPE html><style>{sheets}</style>{icons}"
            page.set_content(f'{frame}<div class="panel-body">{markup}</div>')
            page.locator(".panel-body").first.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
