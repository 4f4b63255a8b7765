"""Threads of one process stand in line for a lock, and nothing depends on it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from workers.clock import Clock, SystemClock
from workers.concurrency.locks.lease import LeaseLock
from workers.concurrency.locks.line import LINE, Line
from workers.concurrency.locks.record import Standing
from workers.concurrency.locks.storage_record import StorageRecord
from workers.ports import Ports, RandomIds, ThreadScheduler
from workers.storage.local import LocalStorage

LOCK = "a table"


def test_places_become_first_in_the_order_in_which_they_were_taken() -> None:
    line = Line()
    stacks = [ExitStack() for _ in range(3)]
    first, second, third = (stack.enter_context(line.joined(LOCK)) for stack in stacks)

    assert [one.is_set() for one in (first, second, third)] == [True, False, False]
    stacks[1].close()  # Gives up while it waits.
    assert not third.is_set()
    stacks[0].close()
    assert third.is_set()


def test_another_lock_has_another_line() -> None:
    line = Line()

    with line.joined(LOCK), line.joined("another table") as other:
        assert other.is_set()


class Reads(StorageRecord):
    """Counts how often the record is looked at."""

    def __init__(self, storage: LocalStorage) -> None:
        super().__init__(storage)
        self.count = 0

    def read(self) -> Standing | None:
        self.count += 1
        return super().read()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


class Patient(SystemClock):
    """Stands in line for as long as it takes."""

    def __init__(self) -> None:
        self.stands = threading.Event()

    def wait(self, event: threading.Event, seconds: float) -> None:
        self.stands.set()
        event.wait()


def lock_on(record: StorageRecord, clock: Clock | None = None) -> LeaseLock:
    ports = Ports(clock or SystemClock(), RandomIds(), ThreadScheduler())
    return LeaseLock(record, ports, on_takeover=lambda _: None)


def test_who_stands_behind_another_does_not_ask_the_store(storage: LocalStorage) -> None:
    record, clock, got_it = Reads(storage), Patient(), threading.Event()

    def wait() -> None:
        with lock_on(record, clock).held():
            got_it.set()

    thread = threading.Thread(target=wait)
    with LINE.joined(record.place):
        thread.start()
        assert clock.stands.wait(30)
        before = record.count
    thread.join(30)

    assert before == 0
    assert got_it.is_set()


def test_a_place_that_nobody_leaves_keeps_nobody_from_the_lock(storage: LocalStorage) -> None:
    with LINE.joined(StorageRecord(storage).place), lock_on(StorageRecord(storage)).held() as lease:
        assert lease.epoch == 1
