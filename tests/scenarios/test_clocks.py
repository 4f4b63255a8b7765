"""Clocks stand still, are equal, or are wrong: instants stay unique and no row is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.clocks import FrozenClock, ManualClock, SkewedClock
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, Sleep, WatchedStorage
from workers.clock import format_instant
from workers.concurrency.outcome import Committed

HOUR_MS = 3_600_000


def test_two_writers_under_one_frozen_clock_never_share_an_instant(tables: ScenarioTables) -> None:
    table = tables(clock=ManualClock())
    first, second = table.writer("one"), table.writer("other")
    first.upsert({"id": 1, "city": "Oslo"})
    second.upsert({"id": 2, "city": "Bergen"})

    commits = [first.wins(), second.wins()]

    times = [time for commit in commits for time in (commit.instant, commit.completed_at)]
    assert len(set(times)) == 4
    assert [row["id"] for row in table.rows()] == [1, 2]


def test_sixteen_threads_under_one_frozen_clock_take_distinct_times(
    tables: ScenarioTables,
) -> None:
    table = tables(clock=FrozenClock(), partition_by=["city"])
    writers = [table.writer(f"w{n}") for n in range(16)]

    def write(number: int) -> Committed:
        return writers[number].upsert_and_commit({"id": number, "city": f"city{number}"})

    with ThreadPoolExecutor(8) as pool:
        commits = list(pool.map(write, range(16)))

    times = [time for commit in commits for time in (commit.instant, commit.completed_at)]
    assert len(set(times)) == 32
    assert [row["id"] for row in table.rows()] == list(range(16))


def test_clock_that_went_back_gives_later_times_all_the_same(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock)
    first = table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    clock.advance(-HOUR_MS)

    second = table.writer("second").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert first.completed_at < second.instant < second.completed_at
    assert table.rows() == [{"id": 1, "city": "Bergen"}]


def test_writer_an_hour_ahead_does_not_stop_the_others(table: ScenarioTable) -> None:
    ahead = table.writer("ahead", clock=SkewedClock(HOUR_MS))
    ahead.upsert_and_commit({"id": 1, "city": "Oslo"})

    table.writer("punctual").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Bergen"}]


def test_completion_times_follow_the_order_of_publishing(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock)
    writers = [table.writer(f"w{n}") for n in range(4)]
    for number, writer in enumerate(writers):
        writer.upsert({"id": number, "city": "Oslo"})
        clock.advance(7)
    clock.advance(-1_000)

    completed = [writer.wins().completed_at for writer in (writers[i] for i in (2, 0, 3, 1))]

    assert completed == sorted(completed)


def test_request_time_is_taken_under_the_lock_so_that_order_and_times_agree(
    table: ScenarioTable,
) -> None:
    """A writer that stalls right after it took its time holds the next one up (bugs A3, A4)."""
    stall = Sleep()
    at_heartbeat = At("put", ".heartbeat", stall)
    stalling = table.writer("stalling", storage=WatchedStorage(table.location, before=at_heartbeat))
    quick = table.writer("quick")

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(stalling.upsert, {"id": 1, "city": "Oslo"})
        stall.await_asleep()
        other = pool.submit(quick.upsert, {"id": 2, "city": "Oslo"})
        table.clock.sleep(0.2)
        assert not other.done()
        stall.wake()
        slow.result()
        other.result()

    assert stalling.last_instant < quick.last_instant
    stalling.wins()
    quick.wins()


def test_instants_are_utc_to_the_millisecond(tables: ScenarioTables) -> None:
    clock = ManualClock(1_700_000_000_123)
    table = tables(clock=clock)
    clock.advance(1_000)

    committed = table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert committed.instant == format_instant(1_700_000_001_123) == "20231114221321123"


def test_taking_over_a_lock_that_only_seems_to_have_run_out_loses_no_row(
    table: ScenarioTable,
) -> None:
    """A clock an hour ahead takes the lock from a live holder: he is fenced, never both."""
    doze = Sleep()
    at_decision = At("put_if_absent", ".sluice/decision", doze)
    robbed = table.writer("robbed", storage=WatchedStorage(table.location, before=at_decision))
    robbed.upsert({"id": 1, "city": "Oslo"})
    robber = table.writer("robber", clock=SkewedClock(HOUR_MS))

    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(robbed.commit)
        doze.await_asleep()
        robber.upsert({"id": 2, "city": "Bergen"}).wins()
        doze.wake()
        robbed_outcome = outcome.result()

    expected = [{"id": 2, "city": "Bergen"}]
    if isinstance(robbed_outcome, Committed):
        expected.insert(0, {"id": 1, "city": "Oslo"})
    assert table.rows() == expected
    assert table.orphan_files() == []
