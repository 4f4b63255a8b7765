"""Bugs C1 to C4 of other engines, and how long a death stops others."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.scenarios.services import Died as ExecutorDied
from tests.scenarios.services import dies_before_finishing, grows_cold, run, scheduled
from tests.support.clocks import ManualClock
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, ClockedStorage, Died, Sleep, WatchedStorage
from workers.concurrency.heartbeat import read_heartbeat
from workers.concurrency.outcome import Committed, RolledBack
from workers.errors import InstantRolledBack, LockTimeout
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision

INTERVAL_MS, MISSES, LEASE_S, DRIFT_MS = 10_000, 2, 60, 500
INTERVAL_KEY = "hoodie.client.heartbeat.interval_in_ms"
QUICK = {INTERVAL_KEY: str(INTERVAL_MS)}
AT_ONCE = {**QUICK, "hoodie.write.lock.wait_time_ms": "0"}
OSLO, BERGEN = {"id": 1, "city": "Oslo"}, {"id": 1, "city": "Bergen"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(tables: ScenarioTables, clock: ManualClock) -> ScenarioTable:
    return tables(clock=clock)


def beat_ms(table: ScenarioTable, instant: str) -> int:
    heartbeat = read_heartbeat(table.storage, instant)
    assert heartbeat is not None
    return heartbeat.beat_ms


def test_c1_data_write_that_hangs_for_three_intervals_stops_no_heartbeat(
    table: ScenarioTable, clock: ManualClock
) -> None:
    hang = Sleep()
    hanging = At("create_data", ".parquet", hang)
    storage = ClockedStorage(table.location, clock, before=hanging)
    writer = table.writer("slow", options=QUICK, storage=storage)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: writer.upsert(OSLO))
        hang.await_asleep()
        first = beat_ms(table, writer.last_instant)

        clock.advance(3 * INTERVAL_MS)
        assert beat_ms(table, writer.last_instant) == first + 3 * INTERVAL_MS
        assert roll_back_dead_writers(table.table, write_options(QUICK)) == []

        hang.wake()
        writing.result()
    writer.wins()
    assert table.rows() == [OSLO]


def test_c1_heartbeat_that_hangs_for_three_intervals_goes_on_and_its_writer_commits(
    table: ScenarioTable, clock: ManualClock
) -> None:
    """Nobody took it for dead meanwhile, and it does not do so itself."""
    hang = Sleep()
    watch = At("put", ".heartbeat", hang, times=0)
    storage = ClockedStorage(table.location, clock, before=watch)
    writer = table.writer("slow", options=QUICK, storage=storage).upsert(OSLO)
    last = beat_ms(table, writer.last_instant)
    watch.times = 1
    with ThreadPoolExecutor(1) as pool:
        beating = pool.submit(clock.advance, INTERVAL_MS)
        hang.await_asleep()
        clock.advance(3 * INTERVAL_MS)
        assert beat_ms(table, writer.last_instant) == last

        hang.wake()
        beating.result()

    woken_ms = clock.now_ms()
    assert beat_ms(table, writer.last_instant) == woken_ms
    clock.advance(INTERVAL_MS)
    assert beat_ms(table, writer.last_instant) == woken_ms + INTERVAL_MS
    writer.wins()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_c2_writer_that_was_rolled_back_notices_within_an_interval_and_writes_no_further_file(
    tables: ScenarioTables, clock: ManualClock, table_type: str
) -> None:
    eight = {"hoodie.bucket.index.num.buckets": "8"}
    table = tables(table_type=table_type, options=eight, clock=clock)
    asleep = Sleep()
    files: list[str] = []

    def before(call: str, path: str) -> None:
        if call == "create_data":
            files.append(path)
            if len(files) == 2:
                asleep()

    storage = WatchedStorage(table.location, before=before)
    writer = table.writer("slow", options=QUICK, storage=storage)
    with ThreadPoolExecutor(1) as pool:
        rows = [{"id": key, "city": "Oslo"} for key in range(40)]
        writing = pool.submit(lambda: writer.upsert(*rows))
        asleep.await_asleep()
        request = RollbackRequest(writer.last_instant, by="admin", reason="test", is_forced=True)
        rollback(table.table, request, write_options({}))
        clock.advance(INTERVAL_MS)
        assert writer.transaction.is_fenced
        asleep.wake()

        with pytest.raises(InstantRolledBack):
            writing.result()

    assert len(files) == 2
    writer.is_told_rolled_back()
    table.writer("next").upsert_and_commit(OSLO)
    assert table.rows() == [OSLO]
    assert table.orphan_files() == []


def test_c3_executor_that_takes_a_plan_up_again_beats_before_anybody_can_judge_it(
    tables: ScenarioTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables(schema=READINGS, table_type="MERGE_ON_READ", ordering=["ts"])
    for ts in range(6):
        table.writer("w").upsert_and_commit({"id": "a", "place": "p", "ts": ts, "value": ts})
    instant = scheduled(table, "compaction")
    with dies_before_finishing(monkeypatch), pytest.raises(ExecutorDied):
        run(table, "compaction")
    grows_cold(table, instant)
    judged: list[int] = []

    def judge(done: int, total: int) -> None:
        heartbeat = read_heartbeat(table.storage, instant)
        assert heartbeat is not None
        assert not heartbeat.is_expired(table.clock.now_ms())
        judged.append(len(roll_back_dead_writers(table.table, write_options({}))))

    assert run(table, "compaction", on_progress=judge).instant == instant

    assert judged
    assert set(judged) == {0}


def calls_of_a_commit(tables: ScenarioTables) -> int:
    table, calls = tables(clock=ManualClock()), Calls()
    writer = table.writer("a", storage=WatchedStorage(table.location, before=calls)).upsert(OSLO)
    calls.count = 0
    writer.wins()
    return calls.count


class Calls:
    """Does something before the call of a number."""

    def __init__(self, number: int = -1, action: Callable[[], None] = lambda: None) -> None:
        self.count, self.number, self.action = 0, number, action

    def __call__(self, call: str, path: str) -> None:
        self.count += 1
        if self.count == self.number and threading.current_thread() is threading.main_thread():
            self.action()


def test_c4_of_a_commit_and_a_rollback_exactly_one_wins_wherever_they_meet(
    tables: ScenarioTables,
) -> None:
    """A's heart stopped; B rolls it back before one of the calls of A's commit, each in turn."""
    ends = set()
    for number in range(1, calls_of_a_commit(tables) + 1, 2):
        table, calls = tables(clock=ManualClock()), Calls(number)
        storage = WatchedStorage(table.location, before=calls)
        a = table.writer("a", options=QUICK, storage=storage).upsert(OSLO)
        calls.count = 0
        a.dies()
        done: list[int] = []

        def roll_back(done: list[int] = done, table: ScenarioTable = table) -> None:
            try:
                done.append(len(roll_back_dead_writers(table.table, write_options(AT_ONCE))))
            except LockTimeout:
                done.append(0)  # A holds the lock: B has to come again.

        calls.action = roll_back
        outcome = a.commit()
        assert done, f"call {number} was never made"
        roll_back_dead_writers(table.table, write_options(QUICK))
        decision = decisions.read(table.storage, a.last_instant)
        if isinstance(outcome, Committed):
            assert isinstance(decision, CommitDecision), number
            assert table.rows() == [OSLO]
        else:
            assert isinstance(outcome, RolledBack), number
            assert isinstance(decision, RollbackDecision), number
            assert table.rows() == []
            assert table.data_files() == []
        ends.add(type(outcome))
    assert ends == {Committed, RolledBack}


class Death:
    """The process ends before the changing call of this number: nothing of it reaches storage any
    more, so not even its lock is given back.
    """

    def __init__(self, number: int) -> None:
        self.left, self.is_dead = number, False

    def __call__(self, call: str, path: str) -> None:
        if call not in ("read", "open_data", "list_files", "list_names"):
            self.left -= 1
        self.is_dead = self.is_dead or self.left < 0
        if self.is_dead:
            raise Died


@pytest.mark.parametrize("seed", range(24))
def test_next_writer_is_unblocked_within_the_bound_wherever_the_former_one_died(
    tables: ScenarioTables, clock: ManualClock, seed: int
) -> None:
    """The bound: max(heartbeat bound, lease + drift) + one interval, and a lease + drift for a
    process that did not see the lock before. The clock stands still but for that.
    """
    chance = random.Random(seed)
    table, death = tables(clock=clock), Death(chance.randrange(30))
    storage = ClockedStorage(table.location, clock, before=death)
    options = {
        **QUICK,
        "hoodie.client.heartbeat.tolerable.misses": str(MISSES),
        "hoodie.write.lock.storage.validity.timeout.secs": str(LEASE_S),
        "hoodie.write.lock.storage.renew.interval.secs": "1",
    }
    dying = table.writer("dying", options=options, storage=storage)

    with suppress(Died):
        dying.upsert(OSLO).commit()
    dying.falls_silent()

    clock.advance(max(INTERVAL_MS * MISSES, LEASE_S * 1000 + DRIFT_MS) + INTERVAL_MS)
    wait_ms = LEASE_S * 1000 + DRIFT_MS + 100
    watching = {**options, "hoodie.write.lock.wait_time_ms": str(wait_ms)}
    table.writer("next", options=watching).upsert_and_commit(BERGEN)
    roll_back_dead_writers(table.table, write_options(watching))
    assert all(one.is_completed for one in table.instants()), f"seed={seed} died={death.is_dead}"
    assert table.rows() == [BERGEN]
    assert table.orphan_files() == table.leftovers() == []
