"""Whether a worker is at an operation's job right now: a lock on a file of its run directory.

The kernel lets go of it when the worker ends, however it ends and whatever else died with it. So a
job whose worker was killed is known at once, and one that is only busy is never sent again.
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
"""Whoever only looks holds the lock for a moment too; a worker waits that out."""


@contextmanager
def being_at_work(run_dir: str | None, clock: Clock) -> Iterator[bool]:
    """Held while the job is carried out; False where another worker holds it.

    A job without a run directory is the caller's alone.
    """
    if run_dir is None:
        yield True
        return
    folder = Path(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a") as lock:
        yield _is_locked_in_time(lock, clock)


def was_taken(run_dir: Path) -> bool:
    """Whether a worker of this machine ever was at it."""
    return (run_dir / LOCK_FILE).exists()


def is_at_work(run_dir: Path) -> bool:
    """Whether a worker of this machine is at it now."""
    try:
        with (run_dir / LOCK_FILE).open("r+") as lock:
            return not _is_locked(lock)
    except FileNotFoundError:
        return False


def _is_locked_in_time(lock: IO[str], clock: Clock) -> bool:
    for _ in range(_TRIES):
        if _is_locked(lock):
            return True
        clock.sleep(_TRY_AGAIN_S)
    return False


def _is_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
