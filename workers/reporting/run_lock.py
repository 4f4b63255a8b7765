"""Lock of a running job: a file lock in the run directory of the operation.

The kernel releases it when the worker ends for any reason. So a job whose worker was killed is
detected at once, and a job that is only busy is not sent again.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from workers.clock import Clock

LOCK_FILE: Final = "worker.lock"
_TRIES: Final = 20
_TRY_AGAIN_S: Final = 0.05
"""A check also takes the lock for a short time, which a worker waits for."""


@contextmanager
def hold_run_lock(run_dir: str | None, clock: Clock) -> Iterator[bool]:
    """Hold the lock while the job runs. The value is False if another worker has it.

    A job without a run directory needs no lock.
    """
    if run_dir is None:
        yield True
        return
    folder = Path(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a") as lock:
        yield _lock_in_time(lock, clock)


def was_started(run_dir: Path) -> bool:
    """Check whether a worker of this machine ever started the job."""
    return (run_dir / LOCK_FILE).exists()


def is_running(run_dir: Path) -> bool:
    """Check whether a worker of this machine is running the job."""
    try:
        with (run_dir / LOCK_FILE).open("r+") as lock:
            return not _try_lock(lock)
    except FileNotFoundError:
        return False


def _lock_in_time(lock: IO[str], clock: Clock) -> bool:
    for _ in range(_TRIES):
        if _try_lock(lock):
            return True
        clock.sleep(_TRY_AGAIN_S)
    return False


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
