"""Calls beside each other: their order, their errors, and that no thread outlives them."""

from __future__ import annotations

import threading
import time

import pytest

from workers.errors import StorageFailed
from workers.threads import beside_each_other, threads_for

WAIT_MAX_S = 60


def working_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("sluice-work")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_answers_stand_in_the_order_of_what_was_called(threads: int) -> None:
    def squared(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert beside_each_other(squared, range(12), threads=threads) == [n * n for n in range(12)]
    assert working_threads() == []


def test_as_many_run_at_the_same_time_as_there_are_threads() -> None:
    all_of_them = threading.Barrier(3)

    beside_each_other(lambda _: all_of_them.wait(WAIT_MAX_S), range(6), threads=3)

    assert not all_of_them.broken


def test_no_more_run_at_the_same_time_than_there_are_threads() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def counted(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    beside_each_other(counted, range(12), threads=3)

    assert most == 3


def test_after_a_failure_no_call_begins_and_those_under_way_end_before_it_is_raised() -> None:
    begun: list[int] = []
    ended: list[int] = []
    second_is_under_way = threading.Event()

    def failing(number: int) -> None:
        begun.append(number)
        if number == 0:
            assert second_is_under_way.wait(WAIT_MAX_S)
            raise StorageFailed("it broke", at=number)
        second_is_under_way.set()
        time.sleep(0.1)
        ended.append(number)

    with pytest.raises(StorageFailed):
        beside_each_other(failing, range(10), threads=2)

    assert sorted(begun) == [0, 1]
    assert ended == [1]
    assert working_threads() == []


def test_of_several_errors_the_first_in_order_is_raised_whichever_came_first() -> None:
    later_has_failed = threading.Event()

    def failing(number: int) -> None:
        if number == 0:
            assert later_has_failed.wait(WAIT_MAX_S)
            time.sleep(0.02)
        else:
            later_has_failed.set()
        raise StorageFailed("it broke", at=number)

    with pytest.raises(StorageFailed) as failed:
        beside_each_other(failing, range(2), threads=2)

    assert failed.value.values == {"at": 0}


@pytest.mark.parametrize("threads", [1, 3])
def test_who_refuses_before_a_call_stops_it_and_all_later_ones(threads: int) -> None:
    begun: list[int] = []
    looks: list[str] = []

    def look() -> None:
        looks.append(threading.current_thread().name)
        if len(looks) == 3:
            raise StorageFailed("no more")

    with pytest.raises(StorageFailed):
        beside_each_other(begun.append, range(10), threads=threads, before_each=look)

    assert sorted(begun) == [0, 1]
    assert set(looks) == {threading.current_thread().name}
    assert working_threads() == []


@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_said_how_many_are_done(threads: int) -> None:
    done: list[int] = []

    beside_each_other(lambda _: None, range(5), threads=threads, on_done=done.append)

    assert done == sorted(set(done))
    assert done[-1] == 5


def test_threads_are_as_many_as_pay_as_were_asked_for_and_as_go_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.threads.usable_cores", lambda: 4)
    large, small, huge = [10_000_000] * 8, [1000] * 8, [100_000_000] * 8

    assert threads_for(large) == 4
    assert threads_for(small) == 1  # A thread costs more than they take.
    assert threads_for(small, 3) == 3
    assert threads_for(large[:2]) == 2
    assert threads_for(huge) == threads_for(huge, 64) == 1
    assert threads_for([*small, 60_000_000]) == 2
    assert threads_for([]) == 1
