"""Stop what a test started, and fail a test that leaves a thread or a process running.

A thread of an earlier test writes files, sends heartbeats and uses the processor while later tests
run, so they fail by chance.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

import psutil

from workers.repetitions import ThreadRepetition, active_repetitions

_GRACE_S = 10.0
"""For threads and processes that are ending while the test ends."""
_POLL_S = 0.01
_SHARED_THREADS = ("sluice-due",)
"""Names of threads that serve the whole process, and start with the first test that needs them."""


@contextmanager
def nothing_left_running(*, grace_s: float = _GRACE_S) -> Iterator[None]:
    """Stop the repetitions that started inside the block, such as heartbeats of open writers.

    Raises AssertionError, with their names, if threads or child processes that started inside the
    block are still running `grace_s` after it. Child processes are killed.
    """
    threads = set(threading.enumerate())
    repetitions = active_repetitions()
    children = _child_pids()
    yield
    stop_repetitions(besides=repetitions)
    deadline = time.monotonic() + grace_s
    while left := [*_threads_since(threads), *_processes_since(children)]:
        if time.monotonic() > deadline:
            _kill(_child_pids() - children)
            raise AssertionError(f"the test left running: {', '.join(left)}")
        time.sleep(_POLL_S)


def stop_repetitions(*, besides: Set[ThreadRepetition]) -> None:
    for repetition in active_repetitions() - besides:
        repetition.stop()


def _threads_since(before: set[threading.Thread]) -> list[str]:
    return [
        f"thread {thread.name!r}"
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(_SHARED_THREADS)
    ]


def _processes_since(before: set[int]) -> list[str]:
    left = []
    for pid in _child_pids() - before:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                left.append(f"process {pid} ({' '.join(process.cmdline())[:200]})")
        except psutil.NoSuchProcess:
            continue
    return left


def _child_pids() -> set[int]:
    """Return the direct children of this process; reading these files is faster than psutil."""
    children = set[int]()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - called before and after each test
        try:
            children.update(map(int, Path(f"/proc/self/task/{task}/children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # The thread ended.
    return children


def _kill(pids: set[int]) -> None:
    for pid in pids:
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            continue
