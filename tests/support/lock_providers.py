"""Every lock provider, each on a real server or file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.support.postgres import postgres_cluster
from bench.support.redis_server import redis_server

SHARED = ("storage", "filesystem", "sqlite", "postgres", "redis")
"""Those that keep processes apart."""
PROVIDERS = (*SHARED, "in_process")
LEASE_S = 10
"""For processes of their own: long enough to be renewed in time on a loaded machine."""


class Servers:
    """Started for the session: Redis at once, PostgreSQL when the first test wants it. A process
    that starts inside a test may not outlive it, and PostgreSQL's is no child of ours.
    """

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root = root
        self._stack = stack
        redis = stack.enter_context(redis_server("a-password"))
        self._addresses = {"redis": redis.address}

    def address(self, name: str) -> str:
        if name not in self._addresses:
            self._addresses[name] = self._start(name)
        return self._addresses[name]

    def _start(self, name: str) -> str:
        if name == "sqlite":
            return f"sqlite:///{self._root}/locks.db"
        return self._stack.enter_context(postgres_cluster())


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path_factory.mktemp("locks"), stack)


def options_for(provider: str, servers: Servers) -> dict[str, str]:
    """What a writer is told about its lock."""
    if provider in ("sqlite", "postgres"):
        named = {
            "hoodie.write.lock.provider": "database",
            "sluice.lock.url": servers.address(provider),
        }
    elif provider == "redis":
        named = {"hoodie.write.lock.provider": "redis", "sluice.lock.url": servers.address("redis")}
    else:
        named = {"hoodie.write.lock.provider": provider, "sluice.lock.filesystem.pause_ms": "0"}
    return {
        **named,
        "hoodie.write.lock.storage.validity.timeout.secs": str(LEASE_S),
        "hoodie.write.lock.storage.renew.interval.secs": "1",
    }
