"""One site for all browser tests, and the browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.browser.serving import Site, served
from tests.browser.words import PASSWORD

__all__ = ["CHROMIUM_ARGS", "Seen", "Site", "chromium", "signed_in"]
CHROMIUM_ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=20_000)


@dataclass
class Seen:
    """What a page complained about."""

    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("site")) as made:
        yield made


def chromium() -> str:
    """The distribution's own browser."""
    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert executable is not None, "skipped where there is no Chromium"
    return executable


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this package: as long as Playwright runs, an event loop does, and Django refuses
    its database to whatever test comes next in the process.
    """
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        yield launched
        launched.close()


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Asia/Tokyo")
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, site: Site, seen: Seen) -> Page:
    """A page of somebody who is signed in as an admin; whatever it complains about is kept."""
    return signed_in(context, site, seen, "ada")


def signed_in(context: BrowserContext, site: Site, seen: Seen, name: str) -> Page:
    opened = context.new_page()
    opened.on("console", lambda said: _note(seen, said))
    opened.on("pageerror", lambda error: seen.console.append(str(error)))
    opened.on("requestfailed", lambda request: _note_failed(seen, request))
    opened.goto(f"{site.url}/login/")
    opened.fill("#id_username", name)
    opened.fill("#id_password", PASSWORD)
    opened.click("button[type=submit]")
    opened.wait_for_selector("h1")
    return opened


def _note(seen: Seen, said: ConsoleMessage) -> None:
    if said.type in ("error", "warning"):
        seen.console.append(said.text)


def _note_failed(seen: Seen, request: Request) -> None:
    # Leaving a page ends what it still waits for.
    if request.failure != "net::ERR_ABORTED":
        seen.failed.append(f"{request.url} {request.failure}")
