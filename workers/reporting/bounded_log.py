"""Bound of the disk space of a running process's log file: its middle is cut out.

The beginning and the end stay. The middle becomes a hole, so no offset changes: the process
continues to append, and lines that were reported by offset are not reported twice. Linux only. The
file system must support holes (ext4, xfs, btrfs, tmpfs do).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.ports import Scheduler

LOOK_EVERY_S: Final = 1.0
_BLOCK: Final = 4_096
_STAT_BLOCK: Final = 512
_KEEP_SIZE_AND_PUNCH_HOLE: Final = 0x01 | 0x02


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Bounds in bytes. The file may exceed the maximum between two checks."""

    maximum: int = 16 << 20
    head: int = 1 << 20
    tail: int = 4 << 20


@contextmanager
def bound_log(path: Path, scheduler: Scheduler, bounds: LogBounds | None = None) -> Iterator[None]:
    """Check the file about every second until the block ends, in a separate thread."""

    def cut() -> None:
        if path.exists():  # A driver that was started by hand writes elsewhere.
            cut_middle(path, bounds or LogBounds())

    checks = scheduler.every(LOOK_EVERY_S, cut, name="sluice-log-bound")
    try:
        yield
    finally:
        checks.stop()


def cut_middle(path: Path, bounds: LogBounds) -> int:
    """Cut the middle of a file that is larger than the maximum, and leave a note in its place.
    Return the number of bytes cut, or 0 if the file was short enough.

    Raises OSError, also if the file system does not support holes.
    """
    with path.open("r+b", buffering=0) as log:
        status = os.fstat(log.fileno())
        if status.st_blocks * _STAT_BLOCK <= bounds.maximum:
            return 0
        begin = bounds.head // _BLOCK * _BLOCK + _BLOCK
        end = (status.st_size - bounds.tail) // _BLOCK * _BLOCK
        if end <= begin:
            return 0
        _punch_hole(log.fileno(), begin, end - begin)
        words = (
            f"\n{end - begin} bytes were cut here: this log keeps its first {bounds.head} and its "
            f"last {bounds.tail} bytes\n"
        )
        os.pwrite(log.fileno(), words.encode(), begin - _BLOCK)
        return end - begin


def _punch_hole(descriptor: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_int(_KEEP_SIZE_AND_PUNCH_HOLE)
    if libc.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the middle of a log could not be cut: {os.strerror(number)}")
