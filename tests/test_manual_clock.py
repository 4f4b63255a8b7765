"""The manual clock moves only when a test or a sleeper moves it, and takes no real time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

from tests.support.clocks import ManualClock, MortalScheduler

START_MS = 1_000_000


def test_sleeping_moves_both_clocks() -> None:
    clock = ManualClock(START_MS)
    began_s = clock.monotonic_s()

    clock.sleep(3600)

    assert clock.now_ms() == START_MS + 3_600_000
    assert clock.monotonic_s() == began_s + 3600


def test_sleep_of_no_time_moves_the_clock_so_that_a_loop_ends() -> None:
    clock = ManualClock(START_MS)

    clock.sleep(0)

    assert clock.now_ms() == START_MS + 1


def test_waiting_moves_the_clock_unless_the_event_is_set() -> None:
    clock, event = ManualClock(START_MS), Event()

    clock.wait(event, 5)
    event.set()
    clock.wait(event, 5)

    assert clock.now_ms() == START_MS + 5_000


def test_wall_clock_may_go_back_and_the_monotonic_clock_does_not() -> None:
    clock = ManualClock(START_MS)
    began_s = clock.monotonic_s()

    clock.advance(-60_000)

    assert clock.now_ms() == START_MS - 60_000
    assert clock.monotonic_s() == began_s


def test_no_sleep_of_several_threads_ends_early() -> None:
    clock, together = ManualClock(START_MS), Barrier(8)

    def sleep(_: int) -> None:
        until_ms = clock.now_ms() + 10_000
        together.wait(30)
        clock.sleep(10)
        assert clock.now_ms() >= until_ms

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sleep, range(8)))

    assert START_MS + 10_000 <= clock.now_ms() <= START_MS + 80_000


def test_repetitions_run_at_their_times_and_not_after_they_are_stopped() -> None:
    clock, calls = ManualClock(START_MS), list[tuple[str, int]]()
    often = clock.every(2, lambda: calls.append(("often", clock.now_ms() - START_MS)), name="often")
    clock.every(3, lambda: calls.append(("seldom", clock.now_ms() - START_MS)), name="seldom")

    clock.advance(1_999)
    assert calls == []
    clock.sleep(3)
    often.stop()
    clock.advance(2_000)

    assert calls == [("often", 2_000), ("seldom", 3_000), ("often", 4_000), ("seldom", 6_000)]
    assert clock.now_ms() == START_MS + 6_999


def test_repetition_may_stop_itself_and_others() -> None:
    clock, calls = ManualClock(START_MS), list[int]()
    scheduler = MortalScheduler(clock)

    def stop_all() -> None:
        calls.append(clock.now_ms())
        scheduler.stop_all()

    scheduler.every(1, stop_all, name="first")
    scheduler.every(2, stop_all, name="second")
    clock.advance(10_000)

    assert calls == [START_MS + 1_000]


def test_action_that_hangs_is_not_run_twice_at_once_and_keeps_no_other_from_running() -> None:
    clock, hangs, released = ManualClock(START_MS), Event(), Event()
    calls: list[str] = []

    def hang() -> None:
        calls.append("hangs")
        hangs.set()
        assert released.wait(30)

    clock.every(5, hang, name="hangs")
    clock.every(2, lambda: calls.append("beats"), name="beats")
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(clock.advance, 5_000)
        assert hangs.wait(30)
        clock.advance(5_000)
        released.set()
        moving.result(30)

    assert calls == ["beats", "beats", "hangs", "beats", "beats", "beats"]
