"""SQLite locks its whole file while a record is changed, so a process that is stopped there stops
everybody's change. Whoever waits gives up at its own limit all the same, and hears why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.support.crash_ports import START_MS, StillClock
from tests.support.lock_providers import Servers
from tests.support.sqlite_sleeper import MOMENTS, SqliteSleeper
from tests.workers.concurrency.locks.conftest import Client
from workers.errors import LeaseLost, LockTimeout
from workers.table.table import Table

PAUSE_MS_MAX = 1_000
CALL_S_MAX = 0.5
"""SQLite's own patience was five seconds a call."""
FallsAsleep = Callable[[str], SqliteSleeper]

pytestmark = [pytest.mark.process, pytest.mark.parametrize("provider", ["sqlite"], indirect=True)]


@pytest.fixture
def falls_asleep(table: Table, options: dict[str, str], servers: Servers) -> Iterator[FallsAsleep]:
    sleepers: list[SqliteSleeper] = []

    def started(moment: str) -> SqliteSleeper:
        path = "/" + servers.address("sqlite").removeprefix("sqlite:").lstrip("/")
        sleepers.append(SqliteSleeper(path, moment))
        with (
            closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            connection.execute("BEGIN IMMEDIATE")
        return sleepers[-1]

    with Client(table, options).held():
        pass
    yield started
    for sleeper in sleepers:
        sleeper.end()


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("wait_ms", [0, 800])
def test_who_waits_gives_up_at_its_own_limit_and_hears_why(
    table: Table,
    options: dict[str, str],
    falls_asleep: FallsAsleep,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    wait_ms: int,
) -> None:
    sleeper, clock = falls_asleep(moment), StillClock()
    patience_s: list[float] = []

    def connect(*args: Any, timeout: float, **more: Any) -> sqlite3.Connection:
        patience_s.append(timeout)
        return open_database(*args, timeout=timeout, **more)

    open_database: Callable[..., sqlite3.Connection] = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", connect)
    with (
        pytest.raises(LockTimeout, match="was stopped, inside a change"),
        Client(table, options, wait_ms=wait_ms, clock=clock).held(),
    ):
        pass
    monkeypatch.undo()

    assert wait_ms <= clock.now_ms() - START_MS < wait_ms + PAUSE_MS_MAX
    assert 0 < max(patience_s) <= CALL_S_MAX
    sleeper.end()
    with Client(table, options, wait_ms=60_000).held() as lease:
        lease.confirm()


@pytest.mark.parametrize("moment", MOMENTS)
def test_who_waits_has_the_lock_once_the_sleeper_is_awake(
    table: Table, options: dict[str, str], falls_asleep: FallsAsleep, moment: str
) -> None:
    sleeper = falls_asleep(moment)

    def hold() -> int:
        with Client(table, options, wait_ms=60_000).held() as lease:
            return lease.waited_ms

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hold)
        with pytest.raises(LockTimeout), Client(table, options, wait_ms=300).held():
            pass
        assert not waiting.done()
        sleeper.wake()

        assert waiting.result(timeout=60) >= 300


def test_holder_who_cannot_look_any_more_loses_its_lease_and_does_not_hang(
    table: Table, options: dict[str, str], falls_asleep: FallsAsleep
) -> None:
    with Client(table, options, lease_s=1).held() as lease:
        sleeper = falls_asleep("committing")

        with pytest.raises(LeaseLost):
            lease.confirm()

        sleeper.end()
