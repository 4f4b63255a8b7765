"""A test that leaves a thread or a process running fails, and its open writers are stopped."""

from __future__ import annotations

import subprocess
import sys
import threading

import psutil
import pytest

from tests.support.leftovers import nothing_left_running
from workers.ports import ThreadScheduler
from workers.repeating_tasks import active_repetitions


def test_thread_that_is_left_running_is_named() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="left-behind", daemon=True)

    with (
        pytest.raises(AssertionError, match="thread 'left-behind'"),
        nothing_left_running(grace_s=0.05),
    ):
        thread.start()

    end.set()
    thread.join()


def test_process_that_is_left_running_is_named_and_killed() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        pytest.raises(AssertionError, match=r"process \d+ .*time\.sleep"),
        nothing_left_running(grace_s=0.5),
    ):
        process = subprocess.Popen(command)

    assert process.wait(60) < 0
    assert not psutil.pid_exists(process.pid)


def test_repetition_is_stopped() -> None:
    before = active_repetitions()
    with nothing_left_running():
        ThreadScheduler().every(600.0, lambda: None, name="heartbeat of an open writer")
        assert len(active_repetitions() - before) == 1

    assert active_repetitions() == before


def test_thread_that_ends_with_its_test_is_fine() -> None:
    with nothing_left_running():
        threading.Thread(target=lambda: None, name="short").start()
