"""A provider that fails, forgets, or takes a change and loses the answer: what is told is true."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from bench.support.redis_server import RedisServer, redis_server
from tests.support.lock_providers import Servers, options_for
from tests.support.watched_storage import At, WatchedStorage, fails
from tests.workers.concurrency.locks.conftest import Client
from workers.durability import Durability
from workers.errors import (
    LeaseLost,
    LockTimeout,
    MalformedTable,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.table.table import Table
from workers.table_layout import LOCK


def on(table: Table, *, before: At | None = None, after: At | None = None) -> WatchedStorage:
    nothing: Callable[[str, str], None] = lambda call, path: None  # noqa: E731
    return WatchedStorage(
        Path(table.storage.location), before=before or nothing, after=after or nothing
    )


@pytest.mark.parametrize("call", ["put_if_absent", "replace_if_match"])
def test_lock_that_was_taken_without_an_answer_is_ones_own(table: Table, call: str) -> None:
    """Hudi reads a 412 after its own success as somebody else's lock (bug F3)."""
    if call == "replace_if_match":
        with Client(table, {}).held():
            pass
    else:
        table.storage.delete(LOCK.path)
    lost = At(call, LOCK.path, fails(WriteOutcomeUnknown("the answer was lost")))

    with Client(table, {}, storage=on(table, after=lost)).held() as lease:
        lease.confirm()
        assert lost.hits == 1


class Refuses(WatchedStorage):
    """Takes the first change of the lock and says that it did not: a retried request's 412."""

    said = 0

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        changed = super().replace_if_match(path, content, tag, durability)
        if path == LOCK.path and self.said == 0:
            self.said += 1
            return None
        return changed


class Claims(WatchedStorage):
    """Says of the first creation that the file exists, when nothing is there: a wrong 409."""

    said = 0

    def put_if_absent(self, path: str, content: bytes) -> bool:
        if path == LOCK.path and self.said == 0:
            self.said += 1
            return False
        return super().put_if_absent(path, content)


def test_refusal_after_ones_own_success_is_found_out_by_reading(table: Table) -> None:
    """Bug F3."""
    storage = Refuses(Path(table.storage.location))

    with Client(table, {}, storage=storage).held() as lease:
        lease.confirm()
        with pytest.raises(LockTimeout), Client(table, {}).held():
            pass
    assert storage.said == 1


def test_conflict_that_left_nothing_is_tried_again(table: Table) -> None:
    """Bug F6: told that it exists, and nobody ever owns it."""
    table.storage.delete(LOCK.path)
    storage = Claims(Path(table.storage.location))

    with Client(table, {}, storage=storage, wait_ms=10_000).held() as lease:
        lease.confirm()
    assert storage.said == 1


def test_failure_that_changed_nothing_is_told_at_once(table: Table) -> None:
    with Client(table, {}).held():
        pass
    failing = At("replace_if_match", LOCK.path, fails(StorageFailed("disk full")))

    with pytest.raises(StorageFailed, match="disk full"):
        Client(table, {}, storage=on(table, before=failing), wait_ms=60_000).held().__enter__()


def test_renewal_without_an_answer_keeps_the_lease(table: Table) -> None:
    holding = Client(table, {}, storage=(storage := Refuses(Path(table.storage.location))))
    storage.said = 1
    with holding.held() as lease:
        storage.said = 0
        holding.scheduler.stop_all()
        lease.renew()  # type: ignore[attr-defined]

        assert storage.said == 1
        lease.confirm()


def test_instant_that_could_not_be_named_is_not_decided_under_the_lease(table: Table) -> None:
    failing = At("replace_if_match", LOCK.path, fails(WriteOutcomeUnknown("no answer")), times=9)
    with Client(table, {}).held():
        pass
    storage = WatchedStorage(Path(table.storage.location))

    with Client(table, {}, storage=storage).held() as lease:
        storage._before = failing
        with pytest.raises(WriteOutcomeUnknown):
            lease.completes("20240101000000000")
        storage._before = lambda call, path: None

    with Client(table, {}).held():
        pass


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with redis_server("a-password") as server:
        yield server


def test_redis_that_goes_away_is_told_and_the_password_is_not(
    table: Table, own_redis: RedisServer
) -> None:
    options = {"hoodie.write.lock.provider": "redis", "sluice.lock.url": own_redis.address}
    holding = Client(table, options).held()
    lease = holding.__enter__()

    own_redis.stop()

    for call in (lease.confirm, lambda: Client(table, options).held().__enter__()):
        with pytest.raises(StorageFailed, match="out of reach") as failed:
            call()
        assert "a-password" not in str(failed.value)
    holding.__exit__(None, None, None)


def test_redis_that_forgot_loses_the_lease_and_epochs_grow_on(
    table: Table, own_redis: RedisServer
) -> None:
    options = {"hoodie.write.lock.provider": "redis", "sluice.lock.url": own_redis.address}
    with Client(table, options).held() as before:
        with redis.Redis.from_url(own_redis.address) as client:
            client.flushall()
        with pytest.raises(LeaseLost):
            before.confirm()

    with Client(table, options).held() as after:
        assert after.epoch > before.epoch


def test_database_that_cuts_the_connection_is_asked_again(table: Table, servers: Servers) -> None:
    options = options_for("postgres", servers)
    with Client(table, options).held() as lease:
        with psycopg.connect(servers.address("postgres"), autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'sluice lock'"
            )

        with pytest.raises(StorageFailed, match="was lost"):
            lease.confirm()
        lease.confirm()


def test_wrong_password_and_absent_servers_are_told_without_the_password(table: Table) -> None:
    absent = "postgresql://ada:a-password@127.0.0.1:1/locks"
    options = {"hoodie.write.lock.provider": "database", "sluice.lock.url": absent}

    with pytest.raises(StorageFailed, match="out of reach") as failed:
        Client(table, options).held().__enter__()

    assert "postgresql://ada@127.0.0.1:1/locks" in str(failed.value)
    assert "a-password" not in str(failed.value)


def test_sqlite_in_a_directory_that_is_not_there_is_told(table: Table, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/nowhere/locks.db"
    options = {"hoodie.write.lock.provider": "database", "sluice.lock.url": address}

    with pytest.raises(StorageFailed, match="directory exists"):
        Client(table, options).held().__enter__()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"expired": false}'])
@pytest.mark.parametrize("provider", ["storage", "sqlite", "postgres", "redis"], indirect=True)
def test_damaged_record_is_named(
    table: Table, provider: str, options: dict[str, str], servers: Servers, content: str
) -> None:
    with Client(table, options).held():
        pass
    _damage(provider, table, servers, content)

    with pytest.raises(MalformedTable, match="table lock"):
        Client(table, options).held().__enter__()


def _damage(provider: str, table: Table, servers: Servers, content: str) -> None:
    statement = "UPDATE sluice_table_lock SET record = {0} WHERE lock_key = {0}"
    values = (content, table.storage.location)
    if provider == "storage":
        table.storage.put(LOCK.path, content.encode())
    elif provider == "sqlite":
        path = "/" + servers.address("sqlite").removeprefix("sqlite:").lstrip("/")
        with sqlite3.connect(path) as connection:
            connection.execute(statement.format("?"), values)
    elif provider == "postgres":
        with psycopg.connect(servers.address("postgres")) as database:
            database.execute(statement.format("%s").encode(), values)
    else:
        with redis.Redis.from_url(servers.address("redis")) as client:
            client.set(f"sluice:table-lock:{table.storage.location}", content)
