"""What holds whichever provider keeps the lock: one holder, a lease that ends, and a successor who
fences the one before.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.clocks import ManualClock, SkewedClock
from tests.support.lock_providers import SHARED
from tests.support.scenario_table import ScenarioTable
from tests.workers.concurrency.locks.conftest import Client, StartProcess
from workers.concurrency.locks.lease import format_lease_metadata
from workers.concurrency.locks.record import DRIFT_MS
from workers.concurrency.locks.waiters import Waiter, read_waiters
from workers.errors import LeaseLost, LockTimeout
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision

pytestmark = pytest.mark.sampled(every=2)

INSTANT = "20240101000000000"
LATER_MS = 3_600_000

LEASE_MS = 30_000
PATIENCE_MS = 60_000
"""For the lease of a real process that was stopped."""
shared_ones = pytest.mark.parametrize("provider", SHARED, indirect=True)


def test_second_client_waits_in_vain_and_is_told_who_has_it(
    table: Table, options: dict[str, str]
) -> None:
    second = Client(table, options)

    with (
        Client(table, options, writer="nightly/load").held(),
        pytest.raises(LockTimeout, match=r"holder=sluice/\d+/.*nightly%2Fload"),
        second.held(),
    ):
        pass

    with second.held() as lease:
        lease.confirm()


def test_epoch_grows_with_every_holding(table: Table, options: dict[str, str]) -> None:
    epochs = []
    for _ in range(4):
        with Client(table, options).held() as lease:
            epochs.append(lease.epoch)

    assert epochs == sorted(set(epochs))


def test_of_many_threads_one_holds_it_at_a_time(
    table: Table, options: dict[str, str], tmp_path: Path
) -> None:
    number = tmp_path / "number"
    number.write_text("0")

    def work(_: int) -> None:
        for _ in range(4):
            with Client(table, options, wait_ms=60_000).held() as lease:
                before = int(number.read_text())
                lease.confirm()
                number.write_text(str(before + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert number.read_text() == "16"


def test_lease_is_renewed_for_as_long_as_it_is_held(table: Table, options: dict[str, str]) -> None:
    clock = ManualClock()
    with Client(table, options, clock=clock).held() as lease:
        clock.advance(3 * LEASE_MS)

        lease.confirm()
        with pytest.raises(LockTimeout), Client(table, options, clock=clock).held():
            pass


def test_lease_that_is_not_renewed_ends_for_its_holder_and_then_for_everybody(
    table: Table, options: dict[str, str]
) -> None:
    clock = ManualClock()
    dead = Client(table, options, clock=clock)
    holding = dead.held(completing=INSTANT)
    first = holding.__enter__()
    dead.scheduler.stop_all()

    with pytest.raises(LockTimeout), Client(table, options, clock=clock).held():
        pass
    seen_ms = clock.now_ms()  # From here on this process sees the lease unchanged.
    clock.advance(first.acquired_at_ms + LEASE_MS - clock.now_ms())
    with pytest.raises(LeaseLost):
        first.confirm()
    clock.advance(DRIFT_MS)
    with pytest.raises(LockTimeout), Client(table, options, clock=clock).held():
        pass
    assert decisions.read(table.storage, INSTANT) is None

    clock.advance(seen_ms + LEASE_MS + DRIFT_MS + 1 - clock.now_ms())
    with Client(table, options, clock=clock).held() as lease:
        assert lease.epoch > first.epoch
        assert isinstance(decisions.read(table.storage, INSTANT), RollbackDecision)


def test_lock_of_a_dead_holder_frees_itself_and_what_it_was_completing_is_rolled_back(
    table: Table, options: dict[str, str]
) -> None:
    """Hudi's needs a person (bug F2)."""
    dead = Client(table, options)
    holding = dead.held(completing=INSTANT)
    first = holding.__enter__()
    dead.scheduler.stop_all()

    with Client(table, options, clock=SkewedClock(LATER_MS), wait_ms=PATIENCE_MS).held() as lease:
        assert lease.epoch > first.epoch
        decision = decisions.read(table.storage, INSTANT)
        assert isinstance(decision, RollbackDecision)
        with pytest.raises(LeaseLost):
            first.confirm()


def test_of_many_successors_of_a_dead_holder_exactly_one_takes_over(
    table: Table, options: dict[str, str]
) -> None:
    dead = Client(table, options)
    # A holding that nobody refers to any more would be given back by its generator's end.
    holdings = [dead.held()]
    first = holdings[0].__enter__()
    dead.scheduler.stop_all()
    taken: list[int] = []

    clock = ManualClock()
    with pytest.raises(LockTimeout), Client(table, options, clock=clock).held():
        pass
    clock.advance(LEASE_MS + DRIFT_MS + 1)

    def take(_: int) -> None:
        held = Client(table, options, clock=clock).held()
        holdings.append(held)
        try:
            taken.append(held.__enter__().epoch)
        except LockTimeout:
            return

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take, range(6)))

    assert len(taken) == 1
    assert taken[0] > first.epoch


def test_dead_holder_whose_clock_was_hours_ahead_is_waited_for_no_longer_than_his_lease(
    table: Table, options: dict[str, str]
) -> None:
    clock = ManualClock()
    ahead = ManualClock(clock.now_ms() + 2 * LATER_MS)
    dead = Client(table, options, clock=ahead, lease_s=10)
    holding = dead.held(completing=INSTANT)
    first = holding.__enter__()
    dead.scheduler.stop_all()

    # The waiter's own lease says nothing about the other's.
    with Client(table, options, clock=clock, wait_ms=20_000).held() as lease:
        assert lease.epoch > first.epoch
        assert 10_000 < lease.waited_ms < 15_000
        assert isinstance(decisions.read(table.storage, INSTANT), RollbackDecision)
        ahead.advance(lease.waited_ms)
        with pytest.raises(LeaseLost):
            first.confirm()


def test_living_holder_whose_clock_is_hours_ahead_keeps_his_lock(
    table: Table, options: dict[str, str]
) -> None:
    clock = ManualClock()
    ahead = ManualClock(clock.now_ms() + 2 * LATER_MS)
    # While the waiter waits, time passes for the holder too.
    clock.every(1, lambda: ahead.advance(1_000), name="time")
    waiter = Client(table, options, clock=clock, wait_ms=4 * LEASE_MS)

    with Client(table, options, clock=ahead).held() as lease:
        with pytest.raises(LockTimeout), waiter.held():
            pass
        lease.confirm()


@pytest.mark.parametrize("ahead_ms", [-31_000, 40_000, -LATER_MS, LATER_MS])
def test_living_holder_is_not_robbed_by_whoever_has_another_time(
    ahead_ms: int, table: Table, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Only the waiter's wall clock differs: he takes a lease for over, or for far too long."""
    clock = ManualClock()
    skewed = ManualClock(clock.now_ms() + ahead_ms)
    skewed.every(1, lambda: clock.advance(1_000), name="time")
    waiter = Client(table, options, clock=skewed, wait_ms=2 * LEASE_MS)

    with Client(table, options, clock=clock).held(completing=INSTANT) as lease:
        with pytest.raises(LockTimeout), waiter.held():
            pass
        lease.confirm()
    assert decisions.read(table.storage, INSTANT) is None
    skew = re.search(r"holder_is_ahead_ms=(-?\d+)", caplog.text)
    assert skew is not None
    assert abs(int(skew[1]) + ahead_ms) < 3_000


@pytest.mark.parametrize("ahead_ms", [0, 40_000, LATER_MS])
def test_lease_and_its_commit_report_how_far_the_former_holders_clock_was_ahead(
    ahead_ms: int, table: Table, options: dict[str, str]
) -> None:
    clock = ManualClock()
    ahead = ManualClock(clock.now_ms() + ahead_ms)
    holding = ExitStack()
    holding.enter_context(Client(table, options, clock=ahead).held(completing=INSTANT))
    clock.every(1, holding.close, name="release")

    with Client(table, options, clock=clock, wait_ms=2 * LEASE_MS).held() as lease:
        skew = lease.skew
        facts = json.loads(format_lease_metadata(lease))

    if not ahead_ms:
        assert skew is None
        assert facts.keys() == {"provider", "epoch", "waited_ms"}
        return
    assert skew is not None
    assert abs(skew.ahead_ms - ahead_ms) < 3_000
    assert facts["skew"] == {
        "ahead_ms": skew.ahead_ms,
        "writer": skew.writer,
        "instant": INSTANT,
    }


def test_sleeper_who_wakes_does_not_release_his_successors_lock(
    table: Table, options: dict[str, str]
) -> None:
    """Hudi's loser deletes the winner's lock file (bug F1)."""
    sleeper = Client(table, options)
    holding = sleeper.held()
    holding.__enter__()
    sleeper.scheduler.stop_all()

    with Client(table, options, clock=SkewedClock(LATER_MS), wait_ms=PATIENCE_MS).held() as lease:
        holding.__exit__(None, None, None)

        lease.confirm()
        with pytest.raises(LockTimeout), Client(table, options).held():
            pass


def test_client_who_gave_up_waiting_leaves_the_holder_his_lock(
    table: Table, options: dict[str, str]
) -> None:
    """A holds, B gives up and goes, C waits: C has it only after A (bug F1)."""
    with Client(table, options).held() as lease:
        for _ in range(2):
            with pytest.raises(LockTimeout), Client(table, options).held():
                pass
        lease.confirm()

    with Client(table, options).held():
        pass


def test_nobody_is_fenced_by_an_orderly_successor(table: Table, options: dict[str, str]) -> None:
    with Client(table, options).held(completing=INSTANT):
        pass

    with Client(table, options).held():
        pass

    assert decisions.read(table.storage, INSTANT) is None


def test_what_is_completed_may_be_said_later(table: Table, options: dict[str, str]) -> None:
    sleeper = Client(table, options)
    holding = sleeper.held()
    holding.__enter__().completes(INSTANT)
    sleeper.scheduler.stop_all()

    with Client(table, options, clock=SkewedClock(LATER_MS), wait_ms=PATIENCE_MS).held():
        assert isinstance(decisions.read(table.storage, INSTANT), RollbackDecision)


def test_two_tables_never_wait_for_each_other(
    table: Table, options: dict[str, str], tmp_path: Path
) -> None:
    """Hudi's in-process monitor was one text for all tables (bug F5)."""
    other = ScenarioTable(tmp_path / "other").table

    with Client(table, options).held() as lease, Client(other, options).held() as other_lease:
        lease.confirm()
        other_lease.confirm()


def test_error_inside_frees_the_lock(table: Table, options: dict[str, str]) -> None:
    with pytest.raises(ZeroDivisionError), Client(table, options).held():
        raise ZeroDivisionError

    with Client(table, options).held():
        pass


def test_lease_says_since_when_and_how_long_it_was_waited_for(
    table: Table, options: dict[str, str], provider: str
) -> None:
    clock = ManualClock()
    holding = Client(table, options, clock=clock).held()
    first = holding.__enter__()
    began_ms = clock.now_ms()
    waiting = Client(table, options, clock=clock, writer="patient", wait_ms=30_000)
    seen: list[Waiter] = []

    def release() -> None:
        if not seen:
            seen.extend(read_waiters(table.storage, clock.now_ms()))
            holding.__exit__(None, None, None)

    clock.every(5, release, name="holder")
    with waiting.held(completing=INSTANT) as lease:
        pass

    assert [(one.writer, one.instant) for one in seen] == [("patient", INSTANT)]
    assert f"/{first.acquired_at_ms}." in seen[0].holder
    provider_name = {"sqlite": "database", "postgres": "database"}.get(provider, provider)
    assert lease.provider == provider_name
    assert 5_000 <= lease.waited_ms < 10_000
    assert lease.acquired_at_ms >= began_ms + 5_000
    assert read_waiters(table.storage, lease.acquired_at_ms) == []


@pytest.mark.slow
@pytest.mark.process
@shared_ones
def test_of_many_processes_none_loses_a_number(
    table: Table, start: StartProcess, tmp_path: Path
) -> None:
    number = tmp_path / "number"
    number.write_text("0")

    counting = [start(do="count", file=str(number), times=20) for _ in range(2)]
    epochs = [epoch for one in counting for epoch in one.next_answer()["epochs"]]

    assert number.read_text() == "40"
    assert len(set(epochs)) == 40


@pytest.mark.slow
@pytest.mark.process
@shared_ones
def test_holder_that_slept_past_its_lease_cannot_publish(
    table: Table, options: dict[str, str], start: StartProcess
) -> None:
    """Its successor decided; neither its lease nor the decision lets it (bug F4)."""
    sleeper = start(do="hold", instant=INSTANT)
    epoch = sleeper.next_answer()["held"]
    sleeper.freeze()

    with Client(table, options, wait_ms=PATIENCE_MS).held() as lease:
        assert lease.epoch > epoch
        sleeper.thaw()
        sleeper.go_on()
        woken = sleeper.next_answer()
        assert sleeper.next_answer() == {"released": True}
        lease.confirm()

    assert woken == {"confirm": "LeaseLost", "published": False}
    assert isinstance(decisions.read(table.storage, INSTANT), RollbackDecision)


@pytest.mark.slow
@pytest.mark.process
@shared_ones
def test_killed_holder_is_succeeded_by_whoever_waits(
    table: Table, options: dict[str, str], start: StartProcess
) -> None:
    killed = start(do="hold", instant=INSTANT)
    killed.next_answer()
    killed.kill()

    with Client(table, options, wait_ms=PATIENCE_MS).held():
        pass

    assert isinstance(decisions.read(table.storage, INSTANT), RollbackDecision)


@pytest.mark.slow
@pytest.mark.process
@shared_ones
def test_holder_who_was_quick_publishes(table: Table, start: StartProcess) -> None:
    quick = start(do="hold", instant=INSTANT)
    quick.next_answer()
    quick.go_on()

    assert quick.next_answer() == {"confirm": "confirmed", "published": True}
    assert isinstance(decisions.read(table.storage, INSTANT), CommitDecision)
