"""Repeated actions: no thread before one is due, and none keeps another waiting."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support import forking_process
from workers.ports import ThreadScheduler

NAME = "repeated by a test"
SOON_S, LATE_S = 0.02, 3_600.0
PROJECT = Path(__file__).parents[2]


def threads() -> int:
    return sum(one.name == NAME for one in threading.enumerate())


def waits(event: threading.Event) -> None:
    event.wait(30)


def test_what_is_stopped_before_it_is_due_costs_no_thread() -> None:
    calls: list[int] = []
    scheduler, later = ThreadScheduler(), threading.Event()
    repetition = scheduler.every(2, lambda: calls.append(1), name=NAME)

    assert threads() == 0
    repetition.stop()
    marker = scheduler.every(2.05, later.set, name="due after the one that was stopped")
    assert later.wait(60)
    marker.stop()
    assert (calls, threads()) == ([], 0)


def test_an_action_is_called_again_and_again_until_it_is_stopped() -> None:
    often, calls = threading.Semaphore(0), []

    def action() -> None:
        calls.append(1)
        often.release()

    repetition = ThreadScheduler().every(SOON_S, action, name=NAME)
    for _ in range(3):
        assert often.acquire(timeout=30)
    repetition.stop()
    known = len(calls)
    time.sleep(5 * SOON_S)

    assert len(calls) == known
    assert threads() == 0


def test_an_action_comes_when_it_is_due_although_a_later_one_was_first_in_line() -> None:
    scheduler, came = ThreadScheduler(), threading.Event()
    late = scheduler.every(LATE_S, came.clear, name=NAME)
    time.sleep(2 * SOON_S)  # Whoever waits for the late one waits by now.
    soon = scheduler.every(SOON_S, came.set, name=NAME)

    assert came.wait(30)
    soon.stop()
    late.stop()


def test_an_action_that_hangs_keeps_no_other_one_waiting() -> None:
    scheduler, hangs, came = ThreadScheduler(), threading.Event(), threading.Event()
    hanging = scheduler.every(SOON_S, lambda: waits(hangs), name=NAME)
    other = scheduler.every(2 * SOON_S, came.set, name=NAME)

    assert came.wait(30)
    hangs.set()
    hanging.stop()
    other.stop()


def test_no_call_goes_on_once_it_is_stopped() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        time.sleep(0.2)
        ended.set()

    repetition = ThreadScheduler().every(SOON_S, slow, name=NAME)
    assert begun.wait(30)
    repetition.stop()

    assert ended.is_set()


def test_an_action_may_stop_itself() -> None:
    calls, stopped = [], threading.Event()

    def once() -> None:
        calls.append(1)
        repetition.stop()
        stopped.set()

    repetition = ThreadScheduler().every(SOON_S, once, name=NAME)
    assert stopped.wait(30)
    time.sleep(5 * SOON_S)

    assert calls == [1]


def test_a_forked_process_repeats_its_own_actions_and_not_its_parents() -> None:
    """In a fresh process: a fork copies the locks that other threads of the tests hold."""
    command = [sys.executable, "-m", forking_process.__name__]

    ended = subprocess.run(command, cwd=PROJECT, check=False, timeout=200)

    assert ended.returncode == 0
