"""Threads of one process stand in line for a lock, and nothing depends on it."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.clocks import ManualClock
from workers.clock import Clock, SystemClock
from workers.concurrency.locks.lease import LeaseLock
from workers.concurrency.locks.record import LockState, StoredLock
from workers.concurrency.locks.storage_record import StorageRecord
from workers.concurrency.locks.wait_queue import (
    TURNS,
    TURNS_ALONE_MAX,
    WAIT_QUEUE,
    LocalWaitQueue,
    QueueTicket,
)
from workers.errors import LeaseLost, StorageFailed
from workers.ports import Ports, RandomIds, ThreadScheduler
from workers.storage.local import LocalStorage

LOCK = "a table"


def test_places_become_first_in_the_order_in_which_they_were_taken() -> None:
    line = LocalWaitQueue()
    stacks = [ExitStack() for _ in range(3)]
    first, second, third = (stack.enter_context(line.join(LOCK)) for stack in stacks)

    assert [one.is_set() for one in (first, second, third)] == [True, False, False]
    stacks[1].close()  # Gives up while it waits.
    assert not third.is_set()
    stacks[0].close()
    assert third.is_set()


def test_who_completes_something_asks_before_those_who_begin() -> None:
    line = LocalWaitQueue()
    stacks = [ExitStack() for _ in range(4)]
    begins, behind = (stack.enter_context(line.join(LOCK)) for stack in stacks[:2])
    completes, last = (
        stack.enter_context(line.join(LOCK, goes_first=True)) for stack in stacks[2:]
    )

    assert [one.is_set() for one in (begins, behind, completes, last)] == [True] + [False] * 3
    stacks[0].close()
    assert [one.is_set() for one in (behind, completes, last)] == [False, True, False]
    stacks[2].close()
    assert [one.is_set() for one in (behind, last)] == [False, True]
    stacks[3].close()
    assert behind.is_set()


def test_while_one_has_the_lock_that_was_left_to_it_no_other_of_its_process_asks() -> None:
    line = LocalWaitQueue()
    with line.join(LOCK) as heir, ExitStack() as others:
        with line.join(LOCK) as holder:
            behind = others.enter_context(line.join(LOCK, goes_first=True))
            heir.clear()
            with line.mark_waiting(heir):
                assert line.leave_to_next(LOCK, holder, "a holding")
        assert heir.is_set()
        assert not behind.is_set()


def test_who_comes_after_the_last_turn_of_its_process_gives_way() -> None:
    line = LocalWaitQueue()
    with line.join(LOCK) as holder, line.join(LOCK) as heir:
        for _ in range(TURNS - 1):
            with line.mark_waiting(heir):
                assert line.leave_to_next(LOCK, holder, "a holding")
            assert not heir.gives_way
            holder, heir = heir, holder
        with line.mark_waiting(heir):
            assert not line.leave_to_next(LOCK, holder, "a holding")
        assert heir.gives_way


def test_another_lock_has_another_line() -> None:
    line = LocalWaitQueue()

    with line.join(LOCK), line.join("another table") as other:
        assert other.is_set()


class Reads(StorageRecord):
    """Counts how often the record is looked at."""

    def __init__(self, storage: LocalStorage) -> None:
        super().__init__(storage)
        self.count = 0

    def read(self) -> StoredLock | None:
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
        with lock_on(record, clock).hold():
            got_it.set()

    thread = threading.Thread(target=wait)
    with WAIT_QUEUE.join(record.place):
        thread.start()
        assert clock.stands.wait(60)
        before = record.count
    thread.join(30)

    assert before == 0
    assert got_it.is_set()


def test_a_place_that_nobody_leaves_keeps_nobody_from_the_lock(storage: LocalStorage) -> None:
    with (
        WAIT_QUEUE.join(StorageRecord(storage).place),
        lock_on(StorageRecord(storage)).hold() as lease,
    ):
        assert lease.epoch == 1


class Changes(StorageRecord):
    """Keeps what was written, and refuses the writes of the thread named `REFUSED` once."""

    def __init__(self, storage: LocalStorage) -> None:
        super().__init__(storage)
        self.states: list[LockState] = []

    def replace(self, state: LockState, tag: str) -> bool:
        if threading.current_thread().name == REFUSED and not state.is_expired:
            raise StorageFailed("refused", path=self.place)
        self.states.append(state)
        return super().replace(state, tag)

    @property
    def given_back(self) -> int:
        return sum(one.is_expired for one in self.states)


REFUSED = "refused"


def in_line(count: int) -> None:
    """Returns when so many stand in line, whoever holds the lock included."""
    until_s = time.monotonic() + 60
    while sum(place._waits for places in WAIT_QUEUE._places.values() for place in places) < count:
        assert time.monotonic() < until_s, "they do not come"
        time.sleep(0.005)


def test_the_lock_is_left_to_who_completes_something_before_those_who_begin(
    storage: LocalStorage,
) -> None:
    record, done = StorageRecord(storage), list[str]()

    def wait(name: str, completing: str | None) -> None:
        with lock_on(record, Patient()).hold(completing=completing):
            done.append(name)

    threads = []
    with lock_on(record).hold():
        for number, completing in enumerate((None, None, "20261122")):
            name = f"{number} {completing}"
            threads.append(threading.Thread(target=wait, args=(name, completing)))
            threads[-1].start()
            in_line(number + 1)
    for thread in threads:
        thread.join(30)

    assert done == ["2 20261122", "0 None", "1 None"]


def hold(record: StorageRecord, epochs: list[int], fenced: list[str]) -> None:
    ports = Ports(Patient(), RandomIds(), ThreadScheduler())
    lock = LeaseLock(record, ports, on_takeover=fenced.append)
    with suppress(StorageFailed), lock.hold(completing="20261122") as lease:
        lease.confirm()
        epochs.append(lease.epoch)


def line_up(
    record: StorageRecord, names: list[str], epochs: list[int], fenced: list[str]
) -> list[threading.Thread]:
    """One after the other, behind somebody who holds the lock."""
    threads = []
    for number, name in enumerate(names):
        thread = threading.Thread(target=hold, args=(record, epochs, fenced), name=name)
        thread.start()
        in_line(number + 1)
        threads.append(thread)
    return threads


def test_the_lock_is_left_to_the_next_in_line_with_one_write_and_nobody_fenced(
    storage: LocalStorage,
) -> None:
    record = Changes(storage)
    epochs: list[int] = []
    fenced: list[str] = []

    with lock_on(record).hold(completing="20261121") as lease:
        threads = line_up(record, ["a", "b", "c"], epochs, fenced)
    for thread in threads:
        thread.join(30)

    assert epochs == [2, 3, 4]
    assert len(record.states) == 4  # Three took it, the last one gave it back.
    assert record.given_back == 1
    assert fenced == []
    with pytest.raises(LeaseLost):
        lease.confirm()


def test_a_process_gives_the_lock_back_after_its_turns(storage: LocalStorage) -> None:
    record = Changes(storage)
    epochs: list[int] = []
    fenced: list[str] = []

    with lock_on(record).hold():
        threads = line_up(record, [str(one) for one in range(TURNS)], epochs, fenced)
    for thread in threads:
        thread.join(30)

    assert epochs == list(range(2, TURNS + 2))
    assert record.given_back == 2
    assert fenced == []


def test_a_process_has_more_turns_while_no_other_comes_in_between() -> None:
    line = LocalWaitQueue()
    with line.join(LOCK) as heir:
        assert turns_of(line, heir) == TURNS
        line.record_takeover(LOCK, after="ours")
        assert turns_of(line, heir) == 2 * TURNS
        line.record_takeover(LOCK, after="another's")
        assert turns_of(line, heir) == TURNS
        turns_had = []
        for _ in range(10):
            line.record_takeover(LOCK, after="ours")
            turns_had.append(turns_of(line, heir))
        assert turns_had[-1] == TURNS_ALONE_MAX


def turns_of(line: LocalWaitQueue, heir: QueueTicket) -> int:
    """Holdings in a row until the lock, `ours` each time, was given back."""
    with ExitStack() as stack, line.mark_waiting(heir):
        turns, holder = 1, stack.enter_context(line.join(LOCK))
        while line.leave_to_next(LOCK, holder, "ours"):
            turns, holder = turns + 1, heir
            heir = stack.enter_context(line.join(LOCK))
            stack.enter_context(line.mark_waiting(heir))
        return turns


def test_who_ends_with_an_error_gives_the_lock_back_and_leaves_it_to_nobody(
    storage: LocalStorage,
) -> None:
    record = Changes(storage)
    epochs: list[int] = []
    threads: list[threading.Thread] = []

    def fail() -> None:
        with lock_on(record).hold():
            threads.extend(line_up(record, ["a"], epochs, []))
            raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        fail()
    for thread in threads:
        thread.join(30)

    assert epochs == [2]
    assert record.given_back == 2


def test_what_is_left_to_one_who_cannot_take_it_is_given_back(storage: LocalStorage) -> None:
    record = Changes(storage)
    epochs: list[int] = []

    with lock_on(record).hold():
        threads = line_up(record, [REFUSED, "b"], epochs, [])
    for thread in threads:
        thread.join(30)

    assert epochs == [2]
    assert [one.is_expired for one in record.states] == [True, False, True]


def test_a_holding_that_ran_out_is_given_back_if_it_is_ours_still_and_left_to_nobody(
    storage: LocalStorage,
) -> None:
    record, clock = Changes(storage), ManualClock()
    epochs: list[int] = []

    with lock_on(record, clock).hold():
        threads = line_up(record, ["a"], epochs, [])
        clock.advance(60_000)
    for thread in threads:
        thread.join(30)

    assert epochs == [2]
    assert record.given_back == 2
