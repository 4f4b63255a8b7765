"""Stop what a test started, and fail a test that leaves a thread or a process running.

A thread of an earlier test writes files, sends heartbeats and uses the processor while later tests
run, so they fail by chance.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

import psutil
from asgiref.sync import SyncToAsync

from workers.repeating_tasks import RepeatingThread, active_repetitions

_GRACE_S = 60.0
"""For threads and processes that are ending while the test ends."""
_POLL_S = 0.01
_SHARED_THREADS = (
    "sluice-due",
    "request_",  # the web application
    "asyncio_",  # the event loop of a browser; ends with it
    "(process_request_thread)",  # Django's live server, for a connection that a client keeps
)
"""Parts of names of threads that serve the whole process from their first use on."""
_SHARED_PROGRAMS = ("bench.support.s3_process",)
"""Programs that serve the whole process from their first use on."""
_SHARED_PIDS = set[int]()


@contextmanager
def shared_by_all_tests() -> Iterator[None]:
    """Let processes that start inside the block outlive the test that starts them."""
    before = _child_pids()
    yield
    _SHARED_PIDS.update(_child_pids() - before)


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
    while (left := _threads_since(threads)) or _processes_since(children):
        if time.monotonic() > deadline:
            for process in _processes_since(children):
                left.append(f"process {process.pid} ({_command_of(process)})")
                process.kill()
            raise AssertionError(f"the test left running: {', '.join(left)}")
        time.sleep(_POLL_S)


def stop_repetitions(*, besides: Set[RepeatingThread]) -> None:
    for repetition in active_repetitions() - besides:
        repetition.stop()


def _threads_since(before: set[threading.Thread]) -> list[str]:
    shared = (*_SHARED_THREADS, *_pools_of_libraries())
    return [
        f"thread {thread.name!r}"
        for thread in threading.enumerate()
        if thread not in before
        and not isinstance(thread, threading._DummyThread)  # started by a library, not by Python
        and not any(part in thread.name for part in shared)
    ]


def _pools_of_libraries() -> list[str]:
    """Return the thread names of pools that a library makes once for the process."""
    pools = [SyncToAsync.single_thread_executor]
    if client := sys.modules.get("pyspark.sql.connect.client.reattach"):
        pools.append(client.ExecutePlanResponseReattachableIterator._release_thread_pool_instance)
    return [f"{pool._thread_name_prefix}_" for pool in pools if pool is not None]


def _processes_since(before: set[int]) -> list[psutil.Process]:
    """Return the children that are new and neither shared nor a zombie."""
    return [
        process
        for pid in _child_pids() - before - _SHARED_PIDS
        if (process := _running(pid)) is not None
        and not any(program in _command_of(process) for program in _SHARED_PROGRAMS)
    ]


def _running(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.NoSuchProcess:
        return ""


def _child_pids() -> set[int]:
    """Return the direct children of this process; reading these files is faster than psutil."""
    children = set[int]()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - called before and after each test
        try:
            children.update(map(int, Path(f"/proc/self/task/{task}/children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # The thread ended.
    return children
