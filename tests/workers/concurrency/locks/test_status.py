"""What people are shown of a lock, whichever provider keeps it."""

from __future__ import annotations

import json
import socket

import pytest

from tests.workers.concurrency.locks.conftest import Client
from workers.clock import SystemClock
from workers.concurrency.locks.bindings import Binding
from workers.concurrency.locks.status import read_lock
from workers.concurrency.locks.waiters import read_waiters
from workers.errors import InvalidInput
from workers.options.lock_options import URL_VARIABLE
from workers.table.table import Table
from workers.table_layout import LOCK, LOCK_WAITERS

INSTANT = "20240101000000000"


def now_ms() -> int:
    return SystemClock().now_ms()


def test_holder_is_shown_with_its_writer_instant_and_times(
    table: Table, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, options.get("sluice.lock.url", ""))
    with Client(table, options, writer="nightly load").held(completing=INSTANT) as lease:
        view = read_lock(table.storage, now_ms())

    assert view.problem is None
    assert view.provider == options["hoodie.write.lock.provider"]
    assert view.holder is not None
    assert (view.holder.writer, view.holder.instant) == ("nightly load", INSTANT)
    assert (view.holder.epoch, view.holder.since_ms) == (lease.epoch, lease.acquired_at_ms)
    assert view.holder.until_ms is not None
    assert view.holder.until_ms > lease.acquired_at_ms
    assert "a-password" not in repr(view)

    after = read_lock(table.storage, now_ms())
    assert (after.holder, after.problem) == (None, None)


def test_server_that_does_not_answer_is_a_problem_to_show(table: Table) -> None:
    binding = Binding("redis", url="redis://127.0.0.1:1/0", key="t")
    table.storage.put(".hoodie/.sluice/lock_provider.json", binding.encode())

    view = read_lock(table.storage, now_ms())

    assert view.provider == "redis"
    assert view.holder is None
    assert view.problem is not None
    assert "out of reach" in view.problem


def test_node_calls_no_server_that_only_the_table_names(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write its files would else choose whom the node calls."""
    monkeypatch.setenv("SLUICE_NODE", "n1")
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.settimeout(0.5)
        server = f"127.0.0.1:{canary.getsockname()[1]}"
        for provider, url in (
            ("redis", f"redis://{server}/0"),
            ("database", f"postgresql://{server}/x"),
        ):
            binding = Binding(provider, url=url, key="t")
            table.storage.put(".hoodie/.sluice/lock_provider.json", binding.encode())

            view = read_lock(table.storage, now_ms())
            with pytest.raises(InvalidInput, match="was not told of"):
                Client(table, {}).held().__enter__()

            assert view.problem is not None
            assert "SLUICE_LOCK_URL" in view.problem
        with pytest.raises(TimeoutError):
            canary.accept()


def test_lock_of_another_engine_is_unknown_until_its_traces_show_which_it_is(
    table: Table,
) -> None:
    storage = table.storage

    def look() -> tuple[str, str, bool]:
        """Provider, owner, and whether the view says why nobody is seen."""
        view = read_lock(storage, now_ms(), is_foreign=True)
        return view.provider, view.holder.owner if view.holder else "", bool(view.problem)

    assert look() == ("unknown", "", True)
    assert read_lock(storage, now_ms()).problem is None, "a table of Sluice has its own lock"

    storage.put(".hoodie/lock", b"")
    assert look() == ("filesystem", "Apache Hudi", False)
    storage.delete(".hoodie/lock")
    assert look() == ("unknown", "", True)

    record = {"owner": "a-uuid", "validUntil": now_ms() + 60_000, "expired": False}
    storage.put(LOCK.path, json.dumps(record).encode())
    assert look() == ("storage", "a-uuid", False)
    storage.put(LOCK.path, json.dumps({**record, "expired": True}).encode())
    assert look() == ("storage", "", False), "its storage-based lock is free"


def test_lock_inside_another_process_cannot_be_seen(table: Table) -> None:
    binding = Binding("in_process", process="elsewhere/1/2")
    table.storage.put(".hoodie/.sluice/lock_provider.json", binding.encode())

    view = read_lock(table.storage, now_ms())

    assert view.problem == "only process elsewhere/1/2 knows who holds it"


def test_damaged_waiter_is_nobody_and_goes_with_the_next_who_waits_long(table: Table) -> None:
    table.storage.put(f"{LOCK_WAITERS.path}/torn.json", b"{")
    table.storage.put(f"{LOCK_WAITERS.path}/1-torn.json", b"{")
    assert read_waiters(table.storage, now_ms()) == []

    with Client(table, {}).held(), pytest.raises(Exception, match="stayed with somebody else"):
        Client(table, {}, wait_ms=1500).held().__enter__()

    assert table.storage.list_files(LOCK_WAITERS.path) == []


def test_who_waits_long_sweeps_those_whose_wait_is_over_and_looks_at_no_other(
    table: Table,
) -> None:
    later_ms = now_ms() + 60_000
    over = f"{LOCK_WAITERS.path}/{now_ms() - 1}-a.json"
    waits, of_old = f"{LOCK_WAITERS.path}/{later_ms}-b.json", f"{LOCK_WAITERS.path}/c.json"
    table.storage.put(over, b"{}")
    table.storage.put(waits, b"{}")
    body = {"writer": "w", "instant": None, "since_ms": 0, "until_ms": later_ms}
    body |= {"holder": "h", "host": "n", "pid": 1}
    table.storage.put(of_old, json.dumps(body).encode())

    with Client(table, {}).held(), pytest.raises(Exception, match="stayed with somebody else"):
        Client(table, {}, wait_ms=1500).held().__enter__()

    assert [file.path for file in table.storage.list_files(LOCK_WAITERS.path)] == [waits, of_old]
