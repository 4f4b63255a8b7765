"""The table lock: one holder, a lease that ends, and a successor who fences the one before."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.clocks import ManualClock, MortalScheduler, SkewedClock
from tests.support.crash_ports import StillClock, still_ports
from tests.support.scenario_table import ScenarioTable
from tests.support.watched_storage import At, WatchedStorage, fails
from workers.clock import Clock, SystemClock
from workers.concurrency.locks.bound_lock import BoundLock
from workers.concurrency.locks.lease import LeaseLock
from workers.concurrency.locks.record import DRIFT_MS, LockState
from workers.concurrency.locks.staleness import StalenessTracker
from workers.concurrency.locks.storage_record import StorageRecord
from workers.errors import LeaseLost, LockTimeout, MalformedTable, StorageFailed
from workers.files.properties import load_properties, store_properties
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds
from workers.storage.local import LocalStorage
from workers.table_layout import LOCK

INSTANT = "20240101000000000"
LEASE_MS = 30_000
RENEW_MS = 10_000


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


class Client:
    """Somebody with a clock of his own who wants the lock."""

    def __init__(
        self,
        storage: LocalStorage,
        clock: Clock | None = None,
        *,
        wait_ms: int = 0,
        sightings: StalenessTracker | None = None,
    ) -> None:
        self.fenced: list[str] = []
        self.scheduler = MortalScheduler(clock if isinstance(clock, ManualClock) else None)
        self.lock = LeaseLock(
            StorageRecord(storage),
            Ports(clock or SystemClock(), RandomIds(), self.scheduler),
            on_takeover=self.fenced.append,
            lease_s=LEASE_MS / 1000,
            renew_s=RENEW_MS / 1000,
            wait_ms=wait_ms,
            sightings=sightings,
        )


def lock_state(storage: LocalStorage) -> LockState:
    record = StorageRecord(storage).read()
    assert record is not None
    return record.state


def test_second_client_waits_in_vain_while_the_first_holds_it(storage: LocalStorage) -> None:
    second = Client(storage)

    with Client(storage).lock.hold(), pytest.raises(LockTimeout, match="holder=sluice/1/"):
        second.lock.hold().__enter__()

    with second.lock.hold() as lease:
        assert lease.epoch == 2


def test_lock_file_has_hudis_three_fields(storage: LocalStorage) -> None:
    with Client(storage).lock.hold(completing=INSTANT):
        body = json.loads(storage.read(LOCK.path))

    assert set(body) == {"expired", "validUntil", "owner"}
    assert body["expired"] is False
    assert body["owner"].endswith(f"/{INSTANT}")
    assert json.loads(storage.read(LOCK.path))["expired"] is True


def test_epoch_grows_with_every_holder(storage: LocalStorage) -> None:
    epochs = []
    for _ in range(5):
        with Client(storage).lock.hold() as lease:
            epochs.append(lease.epoch)

    assert epochs == [1, 2, 3, 4, 5]


def test_of_many_threads_one_holds_it_at_a_time(storage: LocalStorage) -> None:
    inside, most, total = 0, 0, 0
    guard = threading.Lock()

    def work(number: int) -> None:
        nonlocal inside, most, total
        for _ in range(5):
            with Client(storage, wait_ms=60_000).lock.hold() as lease:
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                lease.confirm()
                with guard:
                    inside -= 1
                    total += 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    assert (most, total) == (1, 30)


def test_lock_of_a_dead_holder_frees_itself_after_lease_and_drift(storage: LocalStorage) -> None:
    """Hudi's needs a human (bug F2)."""
    clock = ManualClock()
    dead = Client(storage, clock)
    held = dead.lock.hold()
    held.__enter__()
    dead.scheduler.stop_all()

    sightings = StalenessTracker()
    for later_ms in (0, LEASE_MS + DRIFT_MS):
        clock.advance(later_ms)
        waiter = Client(storage, clock, sightings=sightings)
        with pytest.raises(LockTimeout), waiter.lock.hold():
            pass
    clock.advance(1)

    with Client(storage, clock, sightings=sightings).lock.hold() as lease:
        assert lease.epoch == 2


def test_of_many_successors_of_a_dead_holder_exactly_one_takes_over(storage: LocalStorage) -> None:
    clock = ManualClock()
    dead = Client(storage, clock)
    # A holding that nobody refers to any more would be given back by its generator's end.
    holdings = [dead.lock.hold()]
    holdings[0].__enter__()
    dead.scheduler.stop_all()
    sightings = StalenessTracker()
    with pytest.raises(LockTimeout), Client(storage, clock, sightings=sightings).lock.hold():
        pass
    clock.advance(10 * LEASE_MS)
    taken = []

    def take(number: int) -> None:
        held = Client(storage, clock, sightings=sightings).lock.hold()
        holdings.append(held)
        with suppress(LockTimeout):
            taken.append(held.__enter__().epoch)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(8)))

    assert taken == [2]


def test_successor_fences_the_instant_that_the_sleeper_was_completing(
    storage: LocalStorage,
) -> None:
    sleeper = Client(storage)
    successor = Client(storage, SkewedClock(10 * LEASE_MS), wait_ms=2 * LEASE_MS)

    with sleeper.lock.hold(completing=INSTANT) as lease:
        sleeper.scheduler.stop_all()
        with successor.lock.hold():
            assert successor.fenced == [INSTANT]
            with pytest.raises(LeaseLost):
                lease.confirm()


def test_nobody_is_fenced_by_an_orderly_successor(storage: LocalStorage) -> None:
    with Client(storage).lock.hold(completing=INSTANT):
        pass

    successor = Client(storage)
    with successor.lock.hold():
        pass

    assert successor.fenced == []


def test_sleeper_who_wakes_does_not_release_his_successors_lock(storage: LocalStorage) -> None:
    """Hudi's loser deletes the winner's lock file (bug F1)."""
    sleeper = Client(storage)
    successor = Client(storage, SkewedClock(10 * LEASE_MS), wait_ms=2 * LEASE_MS)

    held = sleeper.lock.hold()
    held.__enter__()
    sleeper.scheduler.stop_all()
    with successor.lock.hold() as lease:
        held.__exit__(None, None, None)

        assert lock_state(storage).epoch == lease.epoch
        assert not lock_state(storage).is_expired
        lease.confirm()


def test_lease_that_ran_out_is_lost_even_if_nobody_took_it(storage: LocalStorage) -> None:
    clock = ManualClock()
    client = Client(storage, clock)

    with client.lock.hold() as lease:
        client.scheduler.stop_all()
        clock.advance(LEASE_MS)

        with pytest.raises(LeaseLost):
            lease.confirm()


def test_holder_who_needs_longer_than_a_lease_renews_it(storage: LocalStorage) -> None:
    clock = ManualClock()
    with Client(storage, clock).lock.hold() as lease:
        for _ in range(4):
            clock.advance(RENEW_MS)
            assert lock_state(storage).valid_until_ms == clock.now_ms() + LEASE_MS
        clock.advance(LEASE_MS)

        lease.confirm()


def test_renewal_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()
    failing = At("replace_if_match", LOCK.path, fails(StorageFailed("503")))
    storage = WatchedStorage(tmp_path / "table", before=failing)

    with Client(storage, clock).lock.hold() as lease:
        first_ms = lock_state(storage).valid_until_ms
        clock.advance(RENEW_MS)
        assert lock_state(storage).valid_until_ms == first_ms
        clock.advance(RENEW_MS)
        assert lock_state(storage).valid_until_ms == clock.now_ms() + LEASE_MS
        lease.confirm()


def test_foreign_owner_is_respected_and_then_succeeded(storage: LocalStorage) -> None:
    """A Hudi client holds the same file with an owner text of its own."""
    clock = ManualClock()
    foreign = LockState(False, clock.now_ms() + 5_000, "hudi-owner-uuid")
    storage.put(LOCK.path, foreign.encode())
    with pytest.raises(LockTimeout, match="hudi-owner-uuid"), Client(storage, clock).lock.hold():
        pass

    clock.advance(5_000 + DRIFT_MS + 1)
    successor = Client(storage, clock)
    with successor.lock.hold() as lease:
        assert lease.epoch > foreign.epoch
    assert successor.fenced == []


HUDIS_DEFAULT_S = 300
"""`hoodie.write.lock.storage.validity.timeout.secs` of Apache Hudi 1.2."""


def put_hudis_record(storage: LocalStorage, valid_until_ms: int) -> None:
    """In the form of Hudi's StorageBasedLockProvider, letter by letter."""
    record = (
        f'{{"expired":false,"validUntil":{valid_until_ms},'
        '"owner":"1b4e28ba-2fa1-41d2-883f-0016d3cca427"}'
    )
    storage.put(LOCK.path, record.encode())


def options_of(seconds: int | None) -> dict[str, str]:
    key = "hoodie.write.lock.storage.validity.timeout.secs"
    return {} if seconds is None else {key: str(seconds)}


@pytest.mark.parametrize("lease_s", [None, 60])
def test_dead_writer_of_hudi_whose_clock_was_hours_ahead_is_waited_for_no_longer_than_a_lease(
    tmp_path: Path, lease_s: int | None
) -> None:
    """The length is Hudi's default, or what the table's properties say."""
    clock = StillClock()
    table = ScenarioTable(tmp_path / "table").table
    properties = load_properties(table.storage)
    store_properties(table.storage, properties | options_of(lease_s))
    storage = LocalStorage(tmp_path / "table")
    put_hudis_record(storage, clock.now_ms() + 2 * 3_600_000)
    lock = BoundLock(
        storage,
        still_ports(clock, prefix="waiter"),
        write_options({"hoodie.write.lock.wait_time_ms": "3600000"}),
        on_takeover=lambda _: None,
    )

    with lock.hold() as lease:
        waited_s = lease.waited_ms / 1000

    length_s = lease_s or HUDIS_DEFAULT_S
    assert length_s < waited_s < length_s + 5


def test_living_writer_of_hudi_whose_clock_is_hours_ahead_keeps_its_lock(tmp_path: Path) -> None:
    """It renews: each time the record is another one."""
    ScenarioTable(tmp_path / "table")
    clock = RenewingClock(tmp_path / "table")
    lock = BoundLock(
        LocalStorage(tmp_path / "table"),
        still_ports(clock, prefix="waiter"),
        write_options({"hoodie.write.lock.wait_time_ms": "400000"}),
        on_takeover=lambda _: None,
    )

    with pytest.raises(LockTimeout, match="1b4e28ba"), lock.hold():
        pass


class RenewingClock(StillClock):
    """While time passes a writer of Hudi renews its lock every half minute."""

    def __init__(self, location: Path) -> None:
        super().__init__()
        self._storage = LocalStorage(location)
        self._renewed_s = -1.0
        self.sleep(0.001)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.monotonic_s() - self._renewed_s >= 30:
            self._renewed_s = self.monotonic_s()
            put_hudis_record(self._storage, self.now_ms() + 2 * 3_600_000)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"expired": false}'])
def test_damaged_lock_file_is_named(storage: LocalStorage, content: bytes) -> None:
    storage.put(LOCK.path, content)

    with pytest.raises(MalformedTable, match="table lock"), Client(storage).lock.hold():
        pass


def test_two_tables_never_wait_for_each_other(tmp_path: Path) -> None:
    """Hudi locked on an interned text (bug F5)."""
    storage, other = (LocalStorage(tmp_path / name) for name in ("one", "other"))

    with Client(storage).lock.hold(), Client(other).lock.hold() as lease:
        lease.confirm()


def test_error_inside_frees_the_lock(storage: LocalStorage) -> None:
    with pytest.raises(ZeroDivisionError), Client(storage).lock.hold():
        raise ZeroDivisionError

    with Client(storage).lock.hold():
        pass


class LateRenewal(StorageRecord):
    """A change of the holder's own, whose answer was lost, arrives right before his next one."""

    def __init__(self, storage: LocalStorage) -> None:
        super().__init__(storage)
        self.late: LockState | None = None

    def replace(self, state: LockState, tag: str) -> bool:
        if self.late is not None:
            late, self.late = self.late, None
            assert super().replace(late, tag)
        return super().replace(state, tag)


def test_instant_that_the_record_does_not_name_is_not_completed(storage: LocalStorage) -> None:
    """The record is the holder's still, but who takes the lock over would fence nobody."""
    record = LateRenewal(storage)
    ports = Ports(SystemClock(), RandomIds(), MortalScheduler())

    with LeaseLock(record, ports, on_takeover=lambda _: None).hold() as lease:
        state = lock_state(storage)
        record.late = state.until(state.valid_until_ms + 1)  # Another one, in the same millisecond.
        with pytest.raises(LeaseLost):
            lease.completes(INSTANT)

    assert lock_state(storage).completing is None
